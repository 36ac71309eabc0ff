package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// A Session asks again and again about a cluster that hardly changes. It holds a copy of the
// cluster's nodes and running pods; the service is told all of them once, and then what has
// changed since its last answer. A service that does not know what it was told (it was
// restarted, it is another replica) is told the whole again, which callers do not notice.
//
//	session := c.NewSession()
//	session.SetNodes(nodes...)
//	placement, err := session.Compute(ctx, request) // Without nodes and running pods.
//
// A session may be used by several goroutines.
type Session struct {
	client *Client

	mutex sync.Mutex
	// state counts changes; what the service knows is a state that was.
	state int
	nodes copies[*placementv1.Node]
	pods  copies[*placementv1.RunningPod]
	// digest of what the service knows, empty when it knows nothing, and its state.
	digest string
	known  int
}

// NewSession begins with an empty cluster.
func (c *Client) NewSession() *Session {
	return &Session{client: c}
}

// SetNodes adds nodes, or replaces those of the same name. They are copied.
func (s *Session) SetNodes(nodes ...*placementv1.Node) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.nodes.set(s.state, nodes)
}

// RemoveNodes takes out nodes by name ("nodes/{node}"); those that are not there do no harm.
func (s *Session) RemoveNodes(names ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.nodes.remove(s.state, names)
}

// SetPods adds running pods, or replaces those of the same name. They are copied.
func (s *Session) SetPods(pods ...*placementv1.RunningPod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.pods.set(s.state, pods)
}

// RemovePods takes out running pods by name ("namespaces/{namespace}/pods/{pod}"); those that
// are not there do no harm.
func (s *Session) RemovePods(names ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.pods.remove(s.state, names)
}

// Replace makes these all nodes and running pods. What is equal has not changed, so a caller that
// lists its cluster anew each time loses nothing but the time that comparing takes.
func (s *Session) Replace(nodes []*placementv1.Node, pods []*placementv1.RunningPod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.nodes.replace(s.state, nodes)
	s.pods.replace(s.state, pods)
}

// Compute answers a question about the session's nodes and running pods, which the request, and
// its base, leave out. Everything else of the snapshot (revision, queues, reservations, budgets)
// is said in each request.
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

// answered takes note that the service knows a state, unless it knows a later one.
func (s *Session) answered(digest string, state int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if digest == "" || (s.digest != "" && state < s.known) {
		return
	}
	s.digest, s.known = digest, state
	s.nodes.forget(state)
	s.pods.forget(state)
}

// forget takes note that the service does not know a base.
func (s *Session) forget(digest string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.digest == digest {
		s.digest = ""
	}
}

// A named message is a node or a running pod.
type named interface {
	proto.Message
	GetName() string
}

// copies are messages by name, and the changes since the base in order.
type copies[M named] struct {
	now     map[string]M
	changes []change
}

// A change is a name that changed, and whether it was there before.
type change struct {
	state    int
	name     string
	wasThere bool
}

func (c *copies[M]) set(state int, messages []M) {
	if c.now == nil {
		c.now = map[string]M{}
	}
	for _, message := range messages {
		before, isThere := c.now[message.GetName()]
		if isThere && proto.Equal(before, message) {
			continue
		}
		c.changes = append(c.changes, change{state, message.GetName(), isThere})
		c.now[message.GetName()] = proto.CloneOf(message)
	}
}

func (c *copies[M]) remove(state int, names []string) {
	for _, name := range names {
		if _, isThere := c.now[name]; isThere {
			delete(c.now, name)
			c.changes = append(c.changes, change{state, name, true})
		}
	}
}

func (c *copies[M]) replace(state int, messages []M) {
	kept := make(map[string]bool, len(messages))
	for _, message := range messages {
		kept[message.GetName()] = true
	}
	var gone []string
	for name := range c.now {
		if !kept[name] {
			gone = append(gone, name)
		}
	}
	c.remove(state, gone)
	c.set(state, messages)
}

func (c *copies[M]) all() []M {
	all := make([]M, 0, len(c.now))
	for _, name := range slices.Sorted(maps.Keys(c.now)) {
		all = append(all, c.now[name])
	}
	return all
}

// since is what was set since the base, and the names that are gone.
func (c *copies[M]) since() (set []M, gone []string) {
	wasThere := map[string]bool{}
	for _, one := range c.changes {
		if _, isKnown := wasThere[one.name]; !isKnown {
			wasThere[one.name] = one.wasThere
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wasThere)) {
		if message, isThere := c.now[name]; isThere {
			set = append(set, message)
		} else if wasThere[name] {
			gone = append(gone, name)
		}
	}
	return set, gone
}

// forget drops the changes up to a state.
func (c *copies[M]) forget(state int) {
	c.changes = slices.DeleteFunc(c.changes, func(one change) bool { return one.state <= state })
}
