package client_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"placement.example/clients/go/client"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// quick repeats without making tests wait.
var quick = client.Backoff{Attempts: 5, Initial: time.Millisecond, Max: 5 * time.Millisecond, Factor: 2}

// script is a server that answers as a test wants: calls fail with the errors, in order, and
// succeed when none is left.
type script struct {
	placementv1.UnimplementedPlacementServiceServer
	mutex  sync.Mutex
	errors []error
	calls  []time.Time
	// stream is what a stream brings before the next of the errors, or the placement.
	stream []*placementv1.Progress
	// isSilent is true for a server that never answers.
	isSilent bool
}

func (s *script) next(ctx context.Context) error {
	if s.isSilent {
		<-ctx.Done()
		return ctx.Err()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.calls = append(s.calls, time.Now())
	if len(s.errors) == 0 {
		return nil
	}
	err := s.errors[0]
	s.errors = s.errors[1:]
	return err
}

func (s *script) ComputePlacement(
	ctx context.Context, request *placementv1.ComputePlacementRequest,
) (*placementv1.ComputePlacementResponse, error) {
	if err := s.next(ctx); err != nil {
		return nil, err
	}
	answer := &placementv1.Placement{Label: request.GetLabel()}
	return &placementv1.ComputePlacementResponse{Placement: answer}, nil
}

func (s *script) StreamPlacement(
	request *placementv1.StreamPlacementRequest, stream placementv1.PlacementService_StreamPlacementServer,
) error {
	for _, one := range s.stream {
		event := &placementv1.StreamPlacementResponse_Progress{Progress: one}
		if err := stream.Send(&placementv1.StreamPlacementResponse{Event: event}); err != nil {
			return err
		}
	}
	if err := s.next(stream.Context()); err != nil {
		return err
	}
	event := &placementv1.StreamPlacementResponse_Placement{
		Placement: &placementv1.Placement{Label: request.GetRequest().GetLabel()},
	}
	return stream.Send(&placementv1.StreamPlacementResponse{Event: event})
}

func serve(t *testing.T, s *script, with ...client.Option) *client.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	placementv1.RegisterPlacementServiceServer(server, s)
	go func() { _ = server.Serve(listener) }() // Ends with Stop.
	t.Cleanup(server.Stop)
	c, err := client.New(listener.Addr().String(), append([]client.Option{client.WithBackoff(quick)}, with...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func failure(t *testing.T, code codes.Code, message string, details ...protoadapt.MessageV1) error {
	t.Helper()
	s, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func info(reason string, metadata map[string]string) protoadapt.MessageV1 {
	return &errdetails.ErrorInfo{Reason: reason, Domain: client.Domain, Metadata: metadata}
}

func busy(t *testing.T, wait time.Duration) error {
	return failure(t, codes.ResourceExhausted, "busy", info("BUSY", nil),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
}

func compute(t *testing.T, c *client.Client) (*placementv1.Placement, *client.Error) {
	t.Helper()
	placement, err := c.Compute(t.Context(), &placementv1.ComputePlacementRequest{Label: "x"})
	var typed *client.Error
	if err != nil && !errors.As(err, &typed) {
		t.Fatalf("%T is no *client.Error: %v", err, err)
	}
	return placement, typed
}

func TestACallIsRepeatedUntilAServerAnswers(t *testing.T) {
	s := &script{errors: []error{
		failure(t, codes.Unavailable, "draining", info("DRAINING", nil)),
		busy(t, time.Millisecond),
		status.Error(codes.Unavailable, "gone"),
		status.Error(codes.Canceled, "the listener ends"),
	}}
	placement, err := compute(t, serve(t, s))
	if err != nil || placement.GetLabel() != "x" || len(s.calls) != 5 {
		t.Fatalf("got %v, %v after %d calls; want the placement after 5", placement, err, len(s.calls))
	}
}

func TestAClosedClientAndAnEndedContextEndACallAtOnce(t *testing.T) {
	slow := client.WithBackoff(client.Backoff{Attempts: 5, Initial: time.Hour, Max: time.Hour, Factor: 1})
	none := client.WithTimeout(2 * time.Hour)
	ends := map[string]func(*client.Client, context.CancelFunc){
		"closed before":    nil,
		"closed meanwhile": func(c *client.Client, _ context.CancelFunc) { _ = c.Close() },
		"cancelled":        func(_ *client.Client, cancel context.CancelFunc) { cancel() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			c := serve(t, &script{isSilent: true}, slow, none)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if end == nil {
				_ = c.Close()
			} else {
				time.AfterFunc(50*time.Millisecond, func() { end(c, cancel) })
			}
			if placement, err := c.Compute(ctx, &placementv1.ComputePlacementRequest{}); err == nil {
				t.Fatalf("got %v", placement)
			}
		})
	}
}

func TestABusyServerIsNotAskedAgainBeforeItSays(t *testing.T) {
	const wait = 300 * time.Millisecond
	s := &script{errors: []error{busy(t, wait)}}
	if _, err := compute(t, serve(t, s)); err != nil {
		t.Fatal(err)
	}
	if pause := s.calls[1].Sub(s.calls[0]); pause < wait {
		t.Fatalf("asked again after %s; want at least %s", pause, wait)
	}
}

func TestTheAdviceOfABusyServerReachesWhoCannotWaitForIt(t *testing.T) {
	s := &script{errors: []error{busy(t, time.Hour)}}
	_, err := compute(t, serve(t, s, client.WithTimeout(20*time.Second)))
	if err == nil || err.Reason != placementv1.ErrorReason_ERROR_REASON_BUSY || err.RetryAfter != time.Hour {
		t.Fatalf("got %#v; want BUSY with an hour", err)
	}
	if len(s.calls) != 1 {
		t.Fatalf("%d calls; want one", len(s.calls))
	}
}

func TestWhatWillFailAgainIsNotRepeated(t *testing.T) {
	for name, err := range map[string]error{
		"a wrong request":           failure(t, codes.InvalidArgument, "wrong", info("INVALID_REQUEST", nil)),
		"a defect":                  failure(t, codes.Internal, "defect", info("INTERNAL", nil)),
		"a message too large":       status.Error(codes.ResourceExhausted, "received message larger than max"),
		"a call that is not served": status.Error(codes.Unimplemented, "unknown service"),
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{errors: []error{err}}
			if _, got := compute(t, serve(t, s)); got == nil || got.Code != status.Code(err) || len(s.calls) != 1 {
				t.Fatalf("got %v after %d calls; want %v after one", got, len(s.calls), err)
			}
		})
	}
}

func TestRepeatingEndsAndTellsTheLastError(t *testing.T) {
	s := &script{}
	for range 20 {
		s.errors = append(s.errors, failure(t, codes.Unavailable, "draining", info("DRAINING", nil)))
	}
	_, err := compute(t, serve(t, s))
	if err == nil || err.Reason != placementv1.ErrorReason_ERROR_REASON_DRAINING || len(s.calls) != quick.Attempts {
		t.Fatalf("got %v after %d calls; want DRAINING after %d", err, len(s.calls), quick.Attempts)
	}
}

func TestEveryViolationIsTold(t *testing.T) {
	s := &script{errors: []error{failure(t, codes.InvalidArgument, "wrong",
		info("INVALID_REQUEST", map[string]string{"violation_count": "7"}),
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "gangs[2].name", Description: "is missing"},
			{Field: "objects[4]", Description: "is not valid JSON"},
		}},
	)}}
	_, err := compute(t, serve(t, s))
	want := []client.Violation{{"gangs[2].name", "is missing"}, {"objects[4]", "is not valid JSON"}}
	if err == nil || !slices.Equal(err.Violations, want) || err.ViolationCount != 7 {
		t.Fatalf("got %#v", err)
	}
	for _, text := range []string{"gangs[2].name: is missing", "objects[4]: is not valid JSON", "and 5 more"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not hold %q", err.Error(), text)
		}
	}
}

func TestAReasonThatThisClientDoesNotKnowKeepsItsName(t *testing.T) {
	s := &script{errors: []error{failure(t, codes.FailedPrecondition, "later", info("BORN_LATER", nil))}}
	_, err := compute(t, serve(t, s))
	if err == nil || err.Reason != placementv1.ErrorReason_ERROR_REASON_UNSPECIFIED || err.ReasonName != "BORN_LATER" {
		t.Fatalf("got %#v", err)
	}
}

func TestASilentServerEndsTheCallAtItsDeadline(t *testing.T) {
	_, err := compute(t, serve(t, &script{isSilent: true}, client.WithTimeout(50*time.Millisecond)))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v; want that the deadline passed", err)
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("gRPC sees %v in it", status.Code(err))
	}
}

func TestAnAddressThatAcceptsAndSaysNothingIsGivenUpBeforeTheDeadline(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	// As long as gRPC would wait by itself.
	c, err := client.New(mute.Addr().String(), client.WithBackoff(quick), client.WithTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := compute(t, c); err == nil || err.Code != codes.Unavailable {
		t.Fatalf("got %v", err)
	}
}

func TestNobodyThereIsUnavailableAtItsAddress(t *testing.T) {
	for _, target := range []string{"127.0.0.1:1", "nobody.invalid:5"} {
		c, err := client.New(target, client.WithBackoff(quick))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := compute(t, c); err == nil || err.Code != codes.Unavailable || !strings.Contains(err.Error(), target) {
			t.Errorf("got %v", err)
		}
		_, err = c.Stream(t.Context(), &placementv1.ComputePlacementRequest{}, nil)
		if err == nil || !strings.Contains(err.Error(), target) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAStreamBringsNewsThenThePlacement(t *testing.T) {
	s := &script{stream: []*placementv1.Progress{{Phase: "greedy"}, {Phase: "exact"}}}
	var phases []string
	placement, err := serve(t, s).Stream(t.Context(), &placementv1.ComputePlacementRequest{Label: "x"},
		func(news *placementv1.Progress) { phases = append(phases, news.GetPhase()) })
	if err != nil || placement.GetLabel() != "x" || !slices.Equal(phases, []string{"greedy", "exact"}) {
		t.Fatalf("got %v, %v, %v", placement, phases, err)
	}
}

func TestAStreamIsRepeatedOnlyBeforeItsFirstNews(t *testing.T) {
	for name, want := range map[string]struct {
		news  []*placementv1.Progress
		calls int
		code  codes.Code
	}{
		"nothing came": {nil, 2, codes.OK},
		"news came":    {[]*placementv1.Progress{{Phase: "greedy"}}, 1, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{stream: want.news, errors: []error{status.Error(codes.Unavailable, "gone")}}
			_, err := serve(t, s).Stream(t.Context(), &placementv1.ComputePlacementRequest{}, nil)
			if status.Code(err) != want.code || len(s.calls) != want.calls {
				t.Fatalf("got %v after %d calls", err, len(s.calls))
			}
		})
	}
}

func TestWrongOptionsAreRefused(t *testing.T) {
	for name, option := range map[string]client.Option{
		"no time":                       client.WithTimeout(0),
		"a certificate without its key": client.WithTLS(client.TLSFiles{Certificate: "c.pem"}),
		"no such file":                  client.WithTLS(client.TLSFiles{CA: "missing.pem"}),
		"a file without certificate":    client.WithTLS(client.TLSFiles{CA: "go.mod"}),
	} {
		if _, err := client.New("localhost:1", option); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestNamesAreTakenApart(t *testing.T) {
	if node, err := client.NodeName("nodes/a-0"); node != "a-0" || err != nil {
		t.Error(node, err)
	}
	if namespace, pod, err := client.PodName("namespaces/ml/pods/a"); namespace != "ml" || pod != "a" || err != nil {
		t.Error(namespace, pod, err)
	}
	if namespace, gang, err := client.GangName("namespaces/ml/podgangs/g"); namespace != "ml" || gang != "g" || err != nil {
		t.Error(namespace, gang, err)
	}
	for _, wrong := range []string{"", "a", "nodes/", "nodes/a/b", "namespaces/ml/pods", "namespaces//pods/a"} {
		if _, err := client.NodeName(wrong); err == nil {
			t.Errorf("node %q was taken", wrong)
		}
		if _, _, err := client.PodName(wrong); err == nil {
			t.Errorf("pod %q was taken", wrong)
		}
	}
}
