// Command objects sends Kubernetes objects as they are, and prints where each pod may go:
//
//	kubectl get nodes,pods,podgangs,priorityclasses -A -o json | objects
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"placement.example/clients/go/client"
	kubernetesv1 "placement.example/clients/go/stubs/placement/kubernetes/v1"
)

func main() {
	list, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	service, err := client.New("localhost:50051")
	if err != nil {
		log.Fatal(err)
	}
	// One list, or a million single objects: what an informer holds does as well.
	answer, err := service.PlaceObjects(context.Background(), &kubernetesv1.PlaceObjectsRequest{
		Objects: [][]byte{list},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, warning := range answer.GetWarnings() {
		log.Print(warning)
	}
	for _, binding := range answer.GetPlacement().GetBindings() {
		fmt.Println(binding.GetPod(), "->", binding.GetNode())
	}
}
