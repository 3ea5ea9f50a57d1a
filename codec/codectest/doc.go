// Package codectest is the test suite for implementations of [codec.Codec]. A codec
// that passes can be put under package binding in place of codec/local.
//
//	func TestMyCodec(t *testing.T) {
//		codectest.Run(t, func(t testing.TB) codec.Codec { return mycodec.New(…) })
//	}
package codectest
