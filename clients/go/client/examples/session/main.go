// Command session asks twice about a cluster, and tells the second time only what has changed.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"google.golang.org/protobuf/encoding/protojson"

	"placement.example/clients/go/client"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

func main() {
	content, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	request := &placementv1.ComputePlacementRequest{}
	if err := protojson.Unmarshal(content, request); err != nil {
		log.Fatal(err)
	}
	service, err := client.New("localhost:50051")
	if err != nil {
		log.Fatal(err)
	}

	// What informers would report. The session takes copies.
	session := service.NewSession()
	session.SetNodes(request.GetSnapshot().GetNodes()...)
	session.SetPods(request.GetSnapshot().GetPods()...)
	request.Snapshot.Nodes, request.Snapshot.Pods = nil, nil

	for range 2 {
		placement, err := session.Compute(context.Background(), request)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(placement.GetBindings()), "bindings, of the snapshot", placement.GetSnapshotDigest())
		for _, binding := range placement.GetBindings() {
			// From now on this node has no room for others; only this change is sent.
			session.RemoveNodes(binding.GetNode())
		}
	}
}
