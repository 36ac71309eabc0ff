package client_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"placement.example/clients/go/client"
	"placement.example/clients/go/client/servicetest"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// recorded is a client that notes the questions that it sends.
func recorded(t *testing.T, service *servicetest.Service, sent *[]*placementv1.ComputePlacementRequest) *client.Client {
	t.Helper()
	note := func(
		ctx context.Context, method string, request, reply any,
		connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		if question, is := request.(*placementv1.ComputePlacementRequest); is {
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

// example is the example's question, and its nodes and running pods apart.
func example(t *testing.T) (*placementv1.ComputePlacementRequest, []*placementv1.Node, []*placementv1.RunningPod) {
	t.Helper()
	question := &placementv1.ComputePlacementRequest{}
	read(t, "examples/request.json", question)
	nodes, pods := question.Snapshot.Nodes, question.Snapshot.Pods
	question.Snapshot.Nodes, question.Snapshot.Pods = nil, nil
	return question, nodes, pods
}

// whole is the answer to the question that tells everything.
func whole(
	t *testing.T, c *client.Client, question *placementv1.ComputePlacementRequest,
	nodes []*placementv1.Node, pods []*placementv1.RunningPod,
) *placementv1.Placement {
	t.Helper()
	question = proto.CloneOf(question)
	question.Snapshot.Nodes, question.Snapshot.Pods = nodes, pods
	placement, err := c.Compute(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	return placement
}

func sameAnswer(t *testing.T, got, want *placementv1.Placement) {
	t.Helper()
	if got.GetSnapshotDigest() == "" || got.GetSnapshotDigest() != want.GetSnapshotDigest() {
		t.Fatalf("digest %q, want %q", got.GetSnapshotDigest(), want.GetSnapshotDigest())
	}
	if !slices.EqualFunc(got.GetBindings(), want.GetBindings(), func(a, b *placementv1.Binding) bool { return proto.Equal(a, b) }) {
		t.Fatalf("bindings %v, want %v", got.GetBindings(), want.GetBindings())
	}
}

func TestASessionTellsWhatChangedAndGetsTheSameAnswers(t *testing.T) {
	service := servicetest.Start(t)
	var sent []*placementv1.ComputePlacementRequest
	c := recorded(t, service, &sent)
	question, nodes, pods := example(t)
	session := c.NewSession()
	session.SetNodes(nodes...)
	session.SetPods(pods...)
	ask := func() *placementv1.Placement {
		t.Helper()
		placement, err := session.Compute(t.Context(), question)
		if err != nil {
			t.Fatal(err)
		}
		return placement
	}

	first := ask()
	if got := sent[0].GetSnapshot().GetNodes(); sent[0].GetBase() != nil || len(got) != len(nodes) {
		t.Fatalf("the first question has a base, or %d of %d nodes", len(got), len(nodes))
	}
	sameAnswer(t, first, whole(t, c, question, nodes, pods))

	// One node goes, one changes, one comes and goes again, one is set to what it was.
	changed := proto.CloneOf(nodes[1])
	changed.Labels["example.com/new"] = "yes"
	passing := proto.CloneOf(nodes[1])
	passing.Name = "nodes/passing"
	session.RemoveNodes(nodes[0].GetName(), "nodes/never-there")
	session.SetNodes(changed, passing, proto.CloneOf(nodes[2]))
	session.RemoveNodes(passing.GetName())
	sent = nil
	second := ask()
	if got := sent[0]; got.GetBase().GetDigest() != first.GetSnapshotDigest() ||
		!slices.Equal(got.GetBase().GetGoneNodes(), []string{nodes[0].GetName()}) ||
		len(got.GetSnapshot().GetNodes()) != 1 || len(got.GetSnapshot().GetPods()) != 0 {
		t.Fatalf("sent %v", got)
	}
	now := slices.Concat([]*placementv1.Node{changed}, nodes[2:])
	sameAnswer(t, second, whole(t, c, question, now, pods))

	// Listed anew, with nothing changed.
	session.Replace(now, pods)
	sent = nil
	sameAnswer(t, ask(), second)
	if got := sent[0]; got.GetBase().GetDigest() != second.GetSnapshotDigest() || len(got.GetSnapshot().GetNodes()) != 0 {
		t.Fatalf("sent %v", got)
	}

	stream, err := session.Stream(t.Context(), question, nil)
	if err != nil {
		t.Fatal(err)
	}
	sameAnswer(t, stream, second)

	question.Snapshot.Nodes = nodes
	if _, err := session.Compute(t.Context(), question); err == nil {
		t.Fatal("a question with nodes of its own was taken")
	}
}

func TestASessionTellsTheWholeToAServiceThatForgot(t *testing.T) {
	service := servicetest.Start(t, "PLACEMENT_SNAPSHOT_BYTES=0")
	var sent []*placementv1.ComputePlacementRequest
	c := recorded(t, service, &sent)
	question, nodes, pods := example(t)
	session := c.NewSession()
	session.Replace(nodes, pods)
	for range 2 {
		sent = nil
		if _, err := session.Compute(t.Context(), question); err != nil {
			t.Fatal(err)
		}
		session.RemoveNodes(nodes[0].GetName())
	}
	if len(sent) != 2 || sent[0].GetBase() == nil || sent[1].GetBase() != nil || len(sent[1].GetSnapshot().GetNodes()) != len(nodes)-1 {
		t.Fatalf("sent %v", sent)
	}
}
