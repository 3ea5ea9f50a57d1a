package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

// A password in a URI would be seen in the list of processes and in logs.
func Example() {
	_, err := etcdstore.Open(context.Background(), "etcds://billing:hunter2@etcd-1:2379/echoseal/billing")
	fmt.Println(errors.Is(err, keyset.ErrConfig))
	fmt.Println(err)

	store, err := etcdstore.Open(context.Background(), "etcds://etcd-1:2379,etcd-2:2379/echoseal/billing")
	if err != nil {
		panic(err)
	}
	defer end(store)
	fmt.Println(store)
	// Output:
	// true
	// invalid configuration: a user or a password never stands in the URI: set ETCDCTL_USER and ETCDCTL_PASSWORD
	// etcds://etcd-1:2379,etcd-2:2379/echoseal/billing
}

// A change is written over the document that it was made from, or not at all.
func ExampleStore_Save() { //nolint:testableexamples // it needs a server
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	store, err := etcdstore.Open(ctx, "etcds://etcd-1:2379/echoseal/billing")
	if err != nil {
		panic(err)
	}
	defer end(store)
	doc, version, err := store.Load(ctx)
	if err != nil {
		panic(err)
	}
	changed := change(doc)
	switch _, err := store.Save(ctx, changed, version); {
	case errors.Is(err, keyset.ErrConflict):
		log.Print("somebody else was first: load it, and decide again")
	case err != nil:
		panic(err)
	}
}

// A server that has a client already uses it for both: its keys, and its reports.
func ExampleNew() { //nolint:testableexamples // it needs a server
	client, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{"https://etcd-1:2379"},
		DialKeepAliveTime: 10 * time.Second, // so that a watch notices a dead connection
	})
	if err != nil {
		panic(err)
	}
	defer end(client)
	store, err := etcdstore.New(client, "echoseal/billing")
	if err != nil {
		panic(err)
	}
	registry, err := etcdstore.NewRegistry(client, "echoseal/billing")
	if err != nil {
		panic(err)
	}
	serve(store, registry)
}

// Whoever rotates keys finds the document and the instances under one URI.
func ExampleOpener() {
	const uri = "etcds://etcd-1:2379/echoseal/billing"
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	source, err := keyset.SourceOpeners{etcdstore.Opener()}.Open(ctx, uri)
	if err != nil {
		panic(err)
	}
	if closer, ok := source.(io.Closer); ok {
		defer end(closer)
	}
	instances, err := fleet.Openers{etcdstore.FleetOpener()}.Open(ctx, uri)
	if err != nil {
		panic(err)
	}
	defer end(instances)
	fmt.Println(source, instances)
	// Output:
	// etcds://etcd-1:2379/echoseal/billing [etcds://etcd-1:2379/echoseal/billing]
}

func end(c io.Closer) {
	if err := c.Close(); err != nil {
		log.Print(err)
	}
}

func change(doc []byte) []byte { return doc }

func serve(keyset.Source, fleet.Registry) {}
