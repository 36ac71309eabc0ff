package client

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
)

// Backoff says how often a call is repeated, and after which wait. If the server says when to come
// back, the wait is at least that long.
type Backoff struct {
	// Attempts is how often a call is made at most, the first time included. Below two, no call
	// is repeated.
	Attempts int
	// Initial is the wait before the first repetition; each further one waits Factor times as
	// long, up to Max. Waits vary by up to a fifth, so that callers do not come back all at once.
	Initial, Max time.Duration
	Factor       float64
}

// DefaultBackoff is the default of a client.
var DefaultBackoff = Backoff{Attempts: 5, Initial: 100 * time.Millisecond, Max: 2 * time.Second, Factor: 3}

// repeat makes attempts until one succeeds, may not be repeated, or none is left. An attempt
// says whether the error that it ends with allows another one.
func repeat[T any](
	ctx context.Context, backoff Backoff, attempt func(context.Context) (T, bool, error),
) (T, error) {
	wait := backoff.Initial
	for made := 1; ; made++ {
		result, mayRepeat, err := attempt(ctx)
		if err == nil {
			return result, nil
		}
		failure := errorOf(err)
		if !mayRepeat || made >= backoff.Attempts || !isTransient(failure) {
			return result, failure
		}
		pause := max(jittered(wait), failure.RetryAfter)
		if deadline, has := ctx.Deadline(); has && time.Until(deadline) <= pause {
			// The server's error says more than that the time ran out while we waited.
			return result, failure
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return result, failure
		case <-timer.C:
		}
		wait = min(time.Duration(float64(wait)*max(backoff.Factor, 1)), max(backoff.Max, backoff.Initial))
	}
}

// isTransient says whether the same call may succeed later. RESOURCE_EXHAUSTED that does not
// say when to come back means a message that is too large, and that does not change.
func isTransient(failure *Error) bool {
	switch failure.Code {
	case codes.Unavailable:
		return true
	case codes.Canceled:
		// By the server, which may do so with calls that begin while it renews its certificates:
		// a caller who cancelled is not kept here.
		return true
	case codes.ResourceExhausted:
		return failure.hasRetryInfo
	default:
		return false
	}
}

func jittered(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
}
