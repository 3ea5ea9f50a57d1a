// Package codec defines what turns a payload into a sealed token and back.
//
// A [Codec] is the lower of Echoseal's two layers. Package binding puts claims
// around a state (who, for which request, until when) and gives the result to a
// codec; the codec encrypts and authenticates it and never looks inside. Package
// codec/local is the codec with keys in memory; package codec/codectest is the
// test suite for any other.
//
// [Expirer], [Identifier] and [Appender] are what some codecs can do besides.
package codec
