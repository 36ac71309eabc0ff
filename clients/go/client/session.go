package client

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"

	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// A Session asks again and again about a cluster that hardly changes. It holds a copy of the
// cluster's nodes and running pods; the service is told all of them once, and then what has
// changed since its last answer. A service that does not know what it was told (it was
// restarted, it is another replica) is sent everything again, which callers do not notice.
//
//	session := c.NewSession()
//	session.SetNodes(nodes...)
//	placement, err := session.Compute(ctx, request) // Without nodes and running pods.
//
// A session may be used by several goroutines.
type Session struct {
	base
	client *Client
	nodes  copies[string, *placementv1.Node]
	pods   copies[string, *placementv1.RunningPod]
}

// NewSession begins with an empty cluster.
func (c *Client) NewSession() *Session {
	return &Session{
		client: c,
		nodes:  newCopies(strings.Compare, equal[*placementv1.Node]),
		pods:   newCopies(strings.Compare, equal[*placementv1.RunningPod]),
	}
}

// SetNodes adds nodes, or replaces those of the same name. They are copied.
func (s *Session) SetNodes(nodes ...*placementv1.Node) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	for _, one := range nodes {
		setCopy(&s.nodes, s.state, one)
	}
}

// RemoveNodes takes out nodes by name ("nodes/{node}"); those that are not there do no harm.
func (s *Session) RemoveNodes(names ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.nodes.remove(s.state, names...)
}

// SetPods adds running pods, or replaces those of the same name. They are copied.
func (s *Session) SetPods(pods ...*placementv1.RunningPod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	for _, one := range pods {
		setCopy(&s.pods, s.state, one)
	}
}

// RemovePods takes out running pods by name ("namespaces/{namespace}/pods/{pod}"); those that
// are not there do no harm.
func (s *Session) RemovePods(names ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.pods.remove(s.state, names...)
}

// Replace replaces all nodes and running pods by these. Equal ones count as unchanged, so a caller
// that lists its cluster anew each time only loses the time to compare.
func (s *Session) Replace(nodes []*placementv1.Node, pods []*placementv1.RunningPod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	replaceCopies(&s.nodes, s.state, nodes)
	replaceCopies(&s.pods, s.state, pods)
}

// Compute answers a question about the session's nodes and running pods, which the request and
// its base leave out. Everything else of the snapshot (revision, queues, reservations, budgets)
// is sent with each request.
func (s *Session) Compute(
	ctx context.Context, request *placementv1.ComputePlacementRequest,
) (*placementv1.Placement, error) {
	return s.ask(request, func(question *placementv1.ComputePlacementRequest) (*placementv1.Placement, error) {
		return s.client.Compute(ctx, question)
	})
}

// Stream answers as Compute does, and calls progress with what is known meanwhile, as
// Client.Stream does.
func (s *Session) Stream(
	ctx context.Context, request *placementv1.ComputePlacementRequest, progress func(*placementv1.Progress),
) (*placementv1.Placement, error) {
	return s.ask(request, func(question *placementv1.ComputePlacementRequest) (*placementv1.Placement, error) {
		return s.client.Stream(ctx, question, progress)
	})
}

func (s *Session) ask(
	request *placementv1.ComputePlacementRequest,
	call func(*placementv1.ComputePlacementRequest) (*placementv1.Placement, error),
) (*placementv1.Placement, error) {
	if request.GetBase() != nil || len(request.GetSnapshot().GetNodes()) > 0 || len(request.GetSnapshot().GetPods()) > 0 {
		return nil, errors.New("client: a session adds nodes, running pods and base to its requests itself")
	}
	for {
		question, state := s.question(request)
		placement, err := call(question)
		base := question.GetBase().GetDigest()
		if err == nil && base != "" && placement.GetSnapshotDigest() == "" {
			return nil, errors.New("client: the service is of a version without sessions")
		}
		if err == nil {
			s.answered(placement.GetSnapshotDigest(), state)
			return placement, nil
		}
		var failure *Error
		if base == "" || !errors.As(err, &failure) || failure.Reason != placementv1.ErrorReason_ERROR_REASON_SNAPSHOT_UNKNOWN {
			return placement, err
		}
		s.forget(base)
	}
}

// question is what to send, and the state that it is about.
func (s *Session) question(request *placementv1.ComputePlacementRequest) (*placementv1.ComputePlacementRequest, int) {
	question := proto.CloneOf(request)
	if question == nil {
		question = &placementv1.ComputePlacementRequest{}
	}
	if question.Snapshot == nil {
		question.Snapshot = &placementv1.ClusterSnapshot{}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	// Messages in a session are never changed, so they need no copy.
	if s.digest == "" {
		question.Snapshot.Nodes, question.Snapshot.Pods = s.nodes.all(), s.pods.all()
		return question, s.state
	}
	question.Base = &placementv1.SnapshotBase{Digest: s.digest}
	question.Snapshot.Nodes, question.Base.GoneNodes = s.nodes.since()
	question.Snapshot.Pods, question.Base.GonePods = s.pods.since()
	return question, s.state
}

// answered records that the service knows a state, unless it knows a later one.
func (s *Session) answered(digest string, state int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.learn(digest, state) {
		s.nodes.forget(state)
		s.pods.forget(state)
	}
}

// A named message is a node or a running pod.
type named interface {
	proto.Message
	GetName() string
}

func equal[M named](a, b M) bool { return proto.Equal(a, b) }

// setCopy sets a copy of a message, unless it is there as it is.
func setCopy[M named](into *copies[string, M], state int, message M) {
	if into.differs(message.GetName(), message) {
		into.set(state, message.GetName(), proto.CloneOf(message))
	}
}

func replaceCopies[M named](into *copies[string, M], state int, messages []M) {
	kept := make(map[string]bool, len(messages))
	for _, message := range messages {
		kept[message.GetName()] = true
		setCopy(into, state, message)
	}
	into.keep(state, kept)
}
