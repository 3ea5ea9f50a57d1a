package gcpkms_test

import (
	"context"
	"fmt"
	"log"

	kms "cloud.google.com/go/kms/apiv1"
	"google.golang.org/api/option"

	"github.com/echoseal/echoseal/codec/gcpkms"
)

// A server lists the keys with which it may unwrap. Whichever version wrapped a data
// key, its stored name is that of the key. Nothing is called until one is unwrapped.
func Example() {
	client, err := kms.NewKeyManagementClient(context.Background(), option.WithoutAuthentication()) // a server leaves the option out
	if err != nil {
		log.Fatal(err)
	}
	service, err := gcpkms.New(client, "projects/acme/locations/europe-west3/keyRings/mcp/cryptoKeys/echoseal")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(service.Opens("gcpkms://projects/acme/locations/europe-west3/keyRings/mcp/cryptoKeys/echoseal"))
	fmt.Println(service.Opens("gcpkms://projects/other/locations/europe-west3/keyRings/mcp/cryptoKeys/echoseal"))
	_ = client.Close() // the caller's, once the service is not used any more
	// Output:
	// true
	// false
}
