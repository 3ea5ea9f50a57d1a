// Package gcpkms is a key service on Google Cloud KMS.
package gcpkms
