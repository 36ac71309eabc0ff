// Command ask sends a question in JSON from standard input, and prints where each pod may go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

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

	service, err := client.New("localhost:50051", client.WithTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	placement, err := service.Compute(context.Background(), request)
	var failure *client.Error
	if errors.As(err, &failure) && failure.RetryAfter > 0 {
		log.Fatalf("%s (again in %s)", failure, failure.RetryAfter)
	}
	if err != nil {
		log.Fatal(err) // Every violation with its field.
	}
	for _, binding := range placement.GetBindings() {
		fmt.Println(binding.GetPod(), "->", binding.GetNode())
	}
	for _, gang := range placement.GetGangs() {
		for _, reason := range gang.GetReasons() {
			fmt.Println(gang.GetName(), "waits:", reason.GetMessage())
		}
	}
}
