package gcpkms

import (
	"errors"
	"hash/crc32"
	"regexp"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC32C of b in the form of Cloud KMS.
func checksum(b []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(b, castagnoli)))
}

// A damage says which field of a request or response was not what had been sent.
type damage struct{ field string }

func (d *damage) Error() string {
	return "the checksum of the " + d.field + " is missing or does not match"
}

// checkField returns a damage unless sum is the CRC32C of b.
func checkField(field string, b []byte, sum *wrapperspb.Int64Value) error {
	if sum == nil || sum.Value != checksum(b).Value {
		return &damage{field}
	}
	return nil
}

// refusedChecksum is how Cloud KMS says that a request did not arrive as it was sent.
// It has no error code of its own.
var refusedChecksum = regexp.MustCompile(`[Cc]hecksum in field (\w{1,64}) did not match`)

// damageOf returns the damage that an error of Cloud KMS tells of, or nil.
func damageOf(err error) *damage {
	s := status.Convert(err)
	if s.Code() != codes.InvalidArgument {
		return nil
	}
	match := refusedChecksum.FindStringSubmatch(s.Message())
	if match == nil {
		return nil
	}
	return &damage{"request (" + match[1] + ")"}
}

// again makes a call, and once more if something was damaged on the way.
func again[T any](call func() (T, error)) (T, error) {
	answer, err := call()
	if d := (*damage)(nil); errors.As(err, &d) {
		return call()
	}
	return answer, err
}
