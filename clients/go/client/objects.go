package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	kubernetesv1 "placement.example/clients/go/stubs/placement/kubernetes/v1"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// An Object is a Kubernetes object as the API server gives it, in JSON with apiVersion and kind.
type Object struct {
	Key     ObjectKey
	Content []byte
}

// An ObjectKey says which object is meant. Namespace is empty for kinds without.
type ObjectKey struct{ APIVersion, Kind, Namespace, Name string }

// String is the object's name in violations: "Pod ml/a", "Node n1".
func (k ObjectKey) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

func compareKeys(a, b ObjectKey) int {
	return cmp.Or(
		strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
	)
}

// An ObjectsSession asks again and again about a cluster that hardly changes, in Kubernetes objects.
// It holds the objects; the service is told all of them once, and then what has changed since its
// last answer. A service that does not know what it was told (it was restarted, it is another
// replica) is sent everything again, which callers do not notice.
//
//	session := c.NewObjectsSession()
//	podInformer.AddEventHandler(session.Handler("v1", "Pod"))
//	...
//	answer, err := session.Place(ctx, &kubernetesv1.PlaceObjectsRequest{}) // Without objects.
//
// A violation or a warning names its object: "objects[Pod ml/a].spec". A session may be used by several
// goroutines.
type ObjectsSession struct {
	base
	client  *Client
	objects copies[ObjectKey, Object]
}

// NewObjectsSession begins without objects.
func (c *Client) NewObjectsSession() *ObjectsSession {
	same := func(a, b Object) bool { return bytes.Equal(a.Content, b.Content) }
	return &ObjectsSession{client: c, objects: newCopies(compareKeys, same)}
}

// Set adds objects, or replaces those of the same key. Their content must not be changed afterwards.
func (s *ObjectsSession) Set(objects ...Object) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.set(objects)
}

func (s *ObjectsSession) set(objects []Object) {
	for _, one := range objects {
		if s.objects.differs(one.Key, one) {
			s.objects.set(s.state, one.Key, one)
		}
	}
}

// Remove takes out objects; those that are not there do no harm.
func (s *ObjectsSession) Remove(keys ...ObjectKey) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.objects.remove(s.state, keys...)
}

// Replace replaces all objects by these. Equal ones count as unchanged.
func (s *ObjectsSession) Replace(objects ...Object) {
	kept := make(map[ObjectKey]bool, len(objects))
	for _, one := range objects {
		kept[one.Key] = true
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.state++
	s.objects.keep(s.state, kept)
	s.set(objects)
}

// Place answers a question about the session's objects, which the request and its base leave
// out. Everything else is sent with each request.
func (s *ObjectsSession) Place(
	ctx context.Context, request *kubernetesv1.PlaceObjectsRequest,
) (*kubernetesv1.PlaceObjectsResponse, error) {
	if request.GetBase() != nil || len(request.GetObjects()) > 0 {
		return nil, errors.New("client: a session adds objects and base to its requests itself")
	}
	for {
		asked := s.question(request)
		response, err := s.client.PlaceObjects(ctx, asked.request)
		base := asked.request.GetBase().GetDigest()
		if err == nil && base != "" && response.GetObjectsDigest() == "" {
			return nil, errors.New("client: the service is of a version without sessions of objects")
		}
		if err == nil {
			s.answered(response.GetObjectsDigest(), asked.state)
			for i, one := range response.Warnings {
				response.Warnings[i] = asked.spoken(one)
			}
			return response, nil
		}
		var failure *Error
		if !errors.As(err, &failure) {
			return nil, err
		}
		if base == "" || failure.Reason != placementv1.ErrorReason_ERROR_REASON_SNAPSHOT_UNKNOWN {
			return nil, asked.named(failure)
		}
		s.forget(base)
	}
}

// An objectsQuestion is what is sent, the objects in it, and the state that it is about.
type objectsQuestion struct {
	request *kubernetesv1.PlaceObjectsRequest
	objects []Object
	state   int
}

func (s *ObjectsSession) question(request *kubernetesv1.PlaceObjectsRequest) objectsQuestion {
	question := proto.CloneOf(request)
	if question == nil {
		question = &kubernetesv1.PlaceObjectsRequest{}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	asked := objectsQuestion{request: question, state: s.state}
	if s.digest == "" {
		asked.objects = s.objects.all()
	} else {
		var gone []ObjectKey
		asked.objects, gone = s.objects.since()
		question.Base = &kubernetesv1.ObjectsBase{Digest: s.digest}
		for _, one := range gone {
			question.Base.Gone = append(question.Base.Gone, &kubernetesv1.ObjectName{
				ApiVersion: one.APIVersion, Kind: one.Kind, Namespace: one.Namespace, Name: one.Name,
			})
		}
	}
	for _, one := range asked.objects {
		question.Objects = append(question.Objects, one.Content)
	}
	return asked
}

// answered records that the service knows a state, unless it knows a later one.
func (s *ObjectsSession) answered(digest string, state int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.learn(digest, state) {
		s.objects.forget(state)
	}
}

// named is the error with keys instead of places in what was sent, which callers do not see.
func (q objectsQuestion) named(failure *Error) *Error {
	copied := *failure
	copied.Violations = slices.Clone(failure.Violations)
	for i, one := range copied.Violations {
		copied.Violations[i].Field = q.spoken(one.Field)
	}
	return &copied
}

// spoken is a field, or a text that begins with one, with the key of the object instead of its place.
func (q objectsQuestion) spoken(field string) string {
	rest, isObject := strings.CutPrefix(field, "objects[")
	digits, path, _ := strings.Cut(rest, "]")
	place, err := strconv.Atoi(digits)
	if !isObject || err != nil || place < 0 || place >= len(q.objects) {
		return field
	}
	return "objects[" + q.objects[place].Key.String() + "]" + path
}
