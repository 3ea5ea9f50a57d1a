package awskms_test

import (
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/echoseal/echoseal/codec/awskms"
)

// A server in Ireland lists its replica of a multi-Region key, and may so unwrap what
// the one in Virginia has wrapped. Nothing is called until a data key is unwrapped.
func Example() {
	client := kms.New(kms.Options{Region: "eu-west-1"}) // or kms.NewFromConfig
	service, err := awskms.New(client, "arn:aws:kms:eu-west-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(service.Opens("awskms:///arn:aws:kms:us-east-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab"))
	fmt.Println(service.Opens("awskms:///arn:aws:kms:us-east-1:111122223333:key/mrk-ffffffffffffffffffffffffffffffff"))
	// Output:
	// true
	// false
}
