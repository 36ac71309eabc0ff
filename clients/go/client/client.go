// Package client asks the placement service, with deadlines, retries and typed errors.
//
//	c, err := client.New("placement.svc:50051", client.WithTLS(files))
//	...
//	placement, err := c.Compute(ctx, request)
//
// Every call has a deadline: that of its context, or else the client's. A call that finds no
// server (UNAVAILABLE), that the server cancels, or that is told when to come back
// (RESOURCE_EXHAUSTED with RetryInfo), is repeated with exponential back-off and jitter, never past
// the deadline. Repeating is harmless, because no answer depends on what was asked before. All
// errors are *Error.
package client

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	kubernetesv1 "placement.example/clients/go/stubs/placement/kubernetes/v1"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

const (
	// DefaultTimeout ends calls whose context has no deadline.
	DefaultTimeout = 60 * time.Second

	// connectTimeout is for one attempt to connect, also where someone accepts and says nothing.
	connectTimeout = 5 * time.Second

	// gRPC refuses messages above 4 MiB unless told otherwise. The caller asked for the answer,
	// whatever its size; the server bounds it.
	maxReceive = 1<<31 - 1
	// A hundred violations do not fit gRPC's default, and the error would be lost whole.
	maxHeaders = 1 << 20
	// Several addresses behind one name are replicas: a retry goes to the next one.
	serviceConfig = `{"loadBalancingConfig": [{"round_robin": {}}]}`
)

// A Client is a connection to the service. It may be used by several goroutines.
type Client struct {
	closer     io.Closer
	placement  placementv1.PlacementServiceClient
	kubernetes kubernetesv1.KubernetesPlacementServiceClient
	// isShut is true once nothing can be asked on the connection any more.
	isShut func() bool
	// target is the address; empty when the connection is not ours.
	target  string
	timeout time.Duration
	backoff Backoff
}

// An Option changes how a client is made.
type Option func(*options) error

type options struct {
	timeout     time.Duration
	backoff     Backoff
	credentials credentials.TransportCredentials
	dial        []grpc.DialOption
}

// WithTimeout sets the deadline of calls whose context has none.
func WithTimeout(timeout time.Duration) Option {
	return func(o *options) error {
		if timeout <= 0 {
			return errors.New("client: the timeout must be positive")
		}
		o.timeout = timeout
		return nil
	}
}

// WithBackoff sets how calls are repeated; the zero Backoff repeats none.
func WithBackoff(backoff Backoff) Option {
	return func(o *options) error {
		o.backoff = backoff
		return nil
	}
}

// WithTLS reaches the service by TLS. Without it, or WithCredentials, traffic is in plain text.
func WithTLS(files TLSFiles) Option {
	return func(o *options) error {
		renewed, err := newRenewed(files)
		if err != nil {
			return err
		}
		o.credentials = renewed
		return nil
	}
}

// WithCredentials reaches the service with credentials of your own.
func WithCredentials(c credentials.TransportCredentials) Option {
	return func(o *options) error {
		o.credentials = c
		return nil
	}
}

// WithDialOptions hands further options to gRPC, such as interceptors.
func WithDialOptions(more ...grpc.DialOption) Option {
	return func(o *options) error {
		o.dial = append(o.dial, more...)
		return nil
	}
}

// New makes a client of the service at an address such as "placement.svc:50051". It does not
// connect yet: the first call does.
func New(target string, with ...Option) (*Client, error) {
	o, err := collect(with)
	if err != nil {
		return nil, err
	}
	if o.credentials == nil {
		o.credentials = insecure.NewCredentials()
	}
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(o.credentials),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive), grpc.MaxCallSendMsgSize(maxReceive)),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
	}, o.dial...)
	connection, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, err
	}
	c := newClient(connection, o)
	c.closer, c.target = connection, target
	return c, nil
}

// NewFromConn makes a client of a connection of your own, which stays yours: Close leaves it
// open. Options of the connection have no effect.
func NewFromConn(connection grpc.ClientConnInterface, with ...Option) (*Client, error) {
	o, err := collect(with)
	if err != nil {
		return nil, err
	}
	return newClient(connection, o), nil
}

func collect(with []Option) (options, error) {
	o := options{timeout: DefaultTimeout, backoff: DefaultBackoff}
	for _, option := range with {
		if err := option(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

func newClient(connection grpc.ClientConnInterface, o options) *Client {
	isShut := func() bool { return false }
	if known, ok := connection.(interface{ GetState() connectivity.State }); ok {
		isShut = func() bool { return known.GetState() == connectivity.Shutdown }
	}
	return &Client{
		isShut:     isShut,
		placement:  placementv1.NewPlacementServiceClient(connection),
		kubernetes: kubernetesv1.NewKubernetesPlacementServiceClient(connection),
		timeout:    o.timeout,
		backoff:    o.backoff,
	}
}

// Close ends the connection, and the calls that are under way with it.
func (c *Client) Close() error {
	if c.closer == nil {
		return nil
	}
	return c.closer.Close()
}

// Compute answers a question. Cancelling the context stops the search.
func (c *Client) Compute(
	ctx context.Context, request *placementv1.ComputePlacementRequest,
) (*placementv1.Placement, error) {
	response, err := call(ctx, c, request, c.placement.ComputePlacement)
	return response.GetPlacement(), err
}

// PlaceObjects answers a question that is asked in Kubernetes objects.
func (c *Client) PlaceObjects(
	ctx context.Context, request *kubernetesv1.PlaceObjectsRequest,
) (*kubernetesv1.PlaceObjectsResponse, error) {
	return call(ctx, c, request, c.kubernetes.PlaceObjects)
}

// TranslateObjects returns the request that Kubernetes objects stand for, and computes nothing.
func (c *Client) TranslateObjects(
	ctx context.Context, request *kubernetesv1.TranslateObjectsRequest,
) (*kubernetesv1.TranslateObjectsResponse, error) {
	return call(ctx, c, request, c.kubernetes.TranslateObjects)
}

// Stream answers a question, and calls progress, unless it is nil, with what is known meanwhile, from the
// goroutine of the caller. Cancelling the context stops the search. A call that ended before any
// progress is repeated as others are; afterwards it is not.
func (c *Client) Stream(
	ctx context.Context, request *placementv1.ComputePlacementRequest, progress func(*placementv1.Progress),
) (*placementv1.Placement, error) {
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	placement, err := repeat(ctx, c.backoff, func(ctx context.Context) (*placementv1.Placement, bool, error) {
		// However this attempt ends, its call ends with it.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		hasNews := false
		stream, err := c.placement.StreamPlacement(ctx, &placementv1.StreamPlacementRequest{Request: request})
		for err == nil {
			var response *placementv1.StreamPlacementResponse
			if response, err = stream.Recv(); err != nil {
				break
			}
			switch event := response.Event.(type) {
			case *placementv1.StreamPlacementResponse_Progress:
				hasNews = true
				if progress != nil {
					progress(event.Progress)
				}
			case *placementv1.StreamPlacementResponse_Placement:
				return event.Placement, false, nil
			}
			// Anything else is an event that a newer server knows and this client does not.
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the stream ended without a placement")
		}
		return nil, !hasNews && !c.isShut(), err
	})
	return placement, c.located(err)
}

// withDeadline gives a call the deadline of the client when it has none.
func (c *Client) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeout)
}

func call[Request, Response any](
	ctx context.Context,
	c *Client,
	request *Request,
	method func(context.Context, *Request, ...grpc.CallOption) (*Response, error),
) (*Response, error) {
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	response, err := repeat(ctx, c.backoff, func(ctx context.Context) (*Response, bool, error) {
		response, err := method(ctx, request)
		return response, !c.isShut(), err
	})
	return response, c.located(err)
}

// located says at which address nobody answers: of a host that nobody knows gRPC says not even that.
func (c *Client) located(err error) error {
	var failure *Error
	isFromServer := !errors.As(err, &failure) || failure.Code != codes.Unavailable || failure.ReasonName != ""
	if isFromServer || c.target == "" {
		return err
	}
	located := *failure
	located.Message = c.target + ": " + failure.Message
	return &located
}
