package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"placement.example/clients/go/client"
	"placement.example/clients/go/client/servicetest"
	kubernetesv1 "placement.example/clients/go/stubs/placement/kubernetes/v1"
)

// informed is an object as an informer of client-go shows it: without kind and version.
type informed struct {
	Metadata struct {
		Namespace     string         `json:"namespace,omitempty"`
		Name          string         `json:"name"`
		ManagedFields []any          `json:"managedFields,omitempty"`
		Labels        map[string]any `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec   map[string]any `json:"spec,omitempty"`
	Status map[string]any `json:"status,omitempty"`
}

func (i *informed) GetNamespace() string { return i.Metadata.Namespace }
func (i *informed) GetName() string      { return i.Metadata.Name }

// gone is cache.DeletedFinalStateUnknown.
type gone struct {
	Key string
	Obj any
}

// feed shows objects as the informers of their kinds do, and returns a way to change them.
func feed(t *testing.T, session *client.ObjectsSession) map[string]*client.Handler {
	t.Helper()
	handlers := map[string]*client.Handler{}
	for _, content := range objects(t) {
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(content, &list); err != nil {
			t.Fatal(err)
		}
		if list.Items == nil {
			list.Items = []json.RawMessage{content}
		}
		for _, item := range list.Items {
			var kind struct{ APIVersion, Kind string }
			one := &informed{}
			if err := errors.Join(json.Unmarshal(item, &kind), json.Unmarshal(item, one)); err != nil {
				t.Fatal(err)
			}
			one.Metadata.ManagedFields = []any{"kubelet"}
			if handlers[kind.Kind] == nil {
				handlers[kind.Kind] = session.Handler(kind.APIVersion, kind.Kind)
			}
			handlers[kind.Kind].OnAdd(one, true)
		}
	}
	return handlers
}

// placing is a client that notes the questions in objects that it sends.
func placing(t *testing.T, service *servicetest.Service, sent *[]*kubernetesv1.PlaceObjectsRequest) *client.Client {
	t.Helper()
	note := func(
		ctx context.Context, method string, request, reply any,
		connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		if question, is := request.(*kubernetesv1.PlaceObjectsRequest); is {
			*sent = append(*sent, proto.CloneOf(question))
		}
		return invoke(ctx, method, request, reply, connection, options...)
	}
	c, err := client.New(service.Target, client.WithDialOptions(grpc.WithUnaryInterceptor(note)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestASessionOfObjectsIsFedByInformers(t *testing.T) {
	service := servicetest.Start(t)
	var sent []*kubernetesv1.PlaceObjectsRequest
	c := placing(t, service, &sent)
	session := c.NewObjectsSession()
	handlers := feed(t, session)
	place := func() *kubernetesv1.PlaceObjectsResponse {
		t.Helper()
		response, err := session.Place(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	where := func(response *kubernetesv1.PlaceObjectsResponse) []string {
		var nodes []string
		for _, one := range response.GetPlacement().GetBindings() {
			nodes = append(nodes, one.GetNode())
		}
		return slices.Compact(nodes)
	}

	first := place()
	if got := where(first); !slices.Equal(got, []string{"nodes/free"}) || len(sent[0].GetObjects()) != 5 {
		t.Fatalf("got %v for %v", got, sent)
	}
	whole, err := c.PlaceObjects(t.Context(), &kubernetesv1.PlaceObjectsRequest{Objects: objects(t)})
	if err != nil || !slices.Equal(where(whole), where(first)) {
		t.Fatalf("got %v, %v", whole, err)
	}

	other := &informed{Status: map[string]any{"allocatable": map[string]any{"nvidia.com/gpu": "8"}}}
	other.Metadata.Name = "other"
	handlers["Node"].OnAdd(other, false)
	handlers["Node"].OnUpdate(other, other)
	handlers["Node"].OnDelete(gone{Key: "free"})
	handlers["Pod"].OnDelete(gone{Key: "ml/nobody"})
	sent = nil
	second := place()
	if got := where(second); !slices.Equal(got, []string{"nodes/other"}) {
		t.Fatalf("got %v", second)
	}
	base := sent[0].GetBase()
	if len(sent[0].GetObjects()) != 1 || base.GetDigest() != first.GetObjectsDigest() || len(base.GetGone()) != 1 {
		t.Fatalf("sent %v", sent)
	}

	// What is wrong is told by name, and forgotten with its object.
	wrong := &informed{Spec: map[string]any{"taints": "none"}}
	wrong.Metadata.Name = "wrong"
	handlers["Node"].OnAdd(wrong, false)
	var failure *client.Error
	if _, err := session.Place(t.Context(), nil); !errors.As(err, &failure) || failure.Violations[0].Field != "objects[Node wrong].spec.taints" {
		t.Fatalf("got %v", err)
	}
	handlers["Node"].OnDelete(wrong)
	if got := place(); got.GetObjectsDigest() != second.GetObjectsDigest() {
		t.Fatalf("got %v", got)
	}
	if _, err := session.Place(t.Context(), &kubernetesv1.PlaceObjectsRequest{Objects: objects(t)}); err == nil {
		t.Fatal("a question with objects of its own was taken")
	}
}

func TestASessionOfObjectsTellsTheWholeToAServiceThatForgot(t *testing.T) {
	service := servicetest.Start(t, "PLACEMENT_SNAPSHOT_BYTES=0")
	var sent []*kubernetesv1.PlaceObjectsRequest
	session := placing(t, service, &sent).NewObjectsSession()
	var all []client.Object
	for i, content := range objects(t)[:2] {
		key := client.ObjectKey{APIVersion: "v1", Kind: "Node", Name: []string{"small", "free"}[i]}
		all = append(all, client.Object{Key: key, Content: content})
	}
	for i := range all {
		session.Replace(all[i:]...)
		sent = nil
		if _, err := session.Place(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(sent) != 2 || sent[0].GetBase() == nil || sent[1].GetBase() != nil || len(sent[1].GetObjects()) != 1 {
		t.Fatalf("sent %v", sent)
	}
}

func TestWarningsInASessionOfObjectsNameTheirObject(t *testing.T) {
	service := servicetest.Start(t)
	var sent []*kubernetesv1.PlaceObjectsRequest
	session := placing(t, service, &sent).NewObjectsSession()
	key := client.ObjectKey{APIVersion: "scheduling.koordinator.sh/v1alpha1", Kind: "Reservation", Name: "held"}
	session.Set(client.Object{Key: key, Content: []byte(`{
		"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "held"},
		"spec": {"ttl": "0s"}, "status": {"phase": "Available", "nodeName": "gone", "allocatable": {"cpu": "1"}}}`)})
	for range 2 {
		response, err := session.Place(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		named := func(one string) bool { return strings.HasPrefix(one, "objects[Reservation held]: ") }
		if !slices.ContainsFunc(response.GetWarnings(), named) {
			t.Fatalf("warnings %q", response.GetWarnings())
		}
	}
}
