// Package inspect finds tokens in what somebody has captured, and tells whose they are,
// without a key.
package inspect
