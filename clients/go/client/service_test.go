package client_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"placement.example/clients/go/client"
	"placement.example/clients/go/client/servicetest"
	kubernetesv1 "placement.example/clients/go/stubs/placement/kubernetes/v1"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// root is the repository.
const root = "../../.."

func read(t *testing.T, path string, into proto.Message) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}

func TestTheRealService(t *testing.T) {
	service := servicetest.Start(t)
	c, err := client.New(service.Target, client.WithTimeout(90*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	question := &placementv1.ComputePlacementRequest{}
	read(t, "examples/request.json", question)

	t.Run("answers a question", func(t *testing.T) {
		placement, err := c.Compute(t.Context(), question)
		if err != nil {
			t.Fatal(err)
		}
		if placement.GetRevision() != "1" || len(placement.GetBindings()) == 0 {
			t.Fatalf("got %v", placement)
		}
	})

	t.Run("streams", func(t *testing.T) {
		news := 0
		placement, err := c.Stream(t.Context(), question, func(*placementv1.Progress) { news++ })
		if err != nil {
			t.Fatal(err)
		}
		if news == 0 || len(placement.GetBindings()) == 0 {
			t.Fatalf("got %d events and %v", news, placement)
		}
	})

	t.Run("names every violation", func(t *testing.T) {
		wrong := proto.CloneOf(question)
		wrong.Gangs[0].Name = "train"
		wrong.TimeLimit = durationpb.New(-time.Second)
		_, err := c.Compute(t.Context(), wrong)
		var failure *client.Error
		if !errors.As(err, &failure) || failure.Code != codes.InvalidArgument ||
			failure.Reason != placementv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
			t.Fatalf("got %#v", err)
		}
		fields := map[string]bool{}
		for _, one := range failure.Violations {
			fields[one.Field] = true
		}
		if !fields["gangs[0].name"] || !fields["time_limit"] {
			t.Fatalf("got %v", failure.Violations)
		}
	})

	t.Run("takes Kubernetes objects as they are", func(t *testing.T) {
		response, err := c.PlaceObjects(t.Context(), &kubernetesv1.PlaceObjectsRequest{Objects: objects(t), Revision: "7"})
		if err != nil {
			t.Fatal(err)
		}
		if got := response.GetPlacement().GetBindings(); len(got) != 2 || got[0].GetNode() != "nodes/free" {
			t.Fatalf("got %v", response)
		}
	})

	t.Run("translates Kubernetes objects", func(t *testing.T) {
		response, err := c.TranslateObjects(t.Context(), &kubernetesv1.TranslateObjectsRequest{Objects: objects(t)})
		if err != nil {
			t.Fatal(err)
		}
		placement, err := c.Compute(t.Context(), response.GetRequest())
		if err != nil || len(placement.GetBindings()) != 2 {
			t.Fatalf("got %v, %v", placement, err)
		}
	})

	t.Run("names the object that is wrong", func(t *testing.T) {
		wrong := append(objects(t), []byte(`{"kind": "Node"`))
		_, err := c.PlaceObjects(t.Context(), &kubernetesv1.PlaceObjectsRequest{Objects: wrong})
		if err == nil || !strings.Contains(err.Error(), "objects[4]: is not valid JSON") {
			t.Fatalf("got %v", err)
		}
	})
}

func TestAKilledServiceIsUnavailable(t *testing.T) {
	service := servicetest.Start(t)
	c, err := client.New(service.Target, client.WithBackoff(quick))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	service.Kill()
	if _, failure := compute(t, c); failure == nil || failure.Code != codes.Unavailable {
		t.Fatalf("got %v", failure)
	}
}

// objects are two pods of one gang, a node that is too small for them, and one that is not.
func objects(t *testing.T) [][]byte {
	t.Helper()
	node := func(name, gpus string) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name},
			"status": map[string]any{"allocatable": map[string]any{"nvidia.com/gpu": gpus}},
		}
	}
	pod := func(name string) map[string]any {
		requests := map[string]any{"nvidia.com/gpu": "1"}
		return map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "ml", "name": name},
			"spec": map[string]any{"containers": []any{
				map[string]any{"name": "main", "resources": map[string]any{"requests": requests}},
			}},
		}
	}
	gang := map[string]any{
		"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
		"metadata": map[string]any{"namespace": "ml", "name": "train"},
		"spec": map[string]any{"podgroups": []any{map[string]any{
			"name": "workers", "minReplicas": 2,
			"podReferences": []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}},
			"topologyConstraint": map[string]any{
				"packConstraint": map[string]any{"required": "kubernetes.io/hostname"},
			},
		}}},
	}
	pods := map[string]any{"apiVersion": "v1", "kind": "PodList", "items": []any{pod("a"), pod("b")}}
	var result [][]byte
	for _, one := range []any{node("small", "1"), node("free", "8"), pods, gang} {
		content, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		result = append(result, content)
	}
	return result
}
