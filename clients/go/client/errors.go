package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// Domain of the service's google.rpc.ErrorInfo.
const Domain = "placement.v1"

const reasonPrefix = "ERROR_REASON_"

// Error is why there is no answer. That a gang is not placed is an answer, not an error.
//
//	var failure *client.Error
//	if errors.As(err, &failure) && failure.Reason == placementv1.ErrorReason_ERROR_REASON_BUSY { ... }
type Error struct {
	// Code of the call.
	Code codes.Code
	// Reason that the service gives. Unspecified when it gave none, as when it was not reached,
	// or one that this client does not know: ReasonName has it then.
	Reason     placementv1.ErrorReason
	ReasonName string
	// Metadata that belongs to the reason; placementv1.ErrorReason says what is in it.
	Metadata map[string]string
	// Message for people.
	Message string
	// Violations of the request, at most the first hundred; ViolationCount is how many there are.
	Violations     []Violation
	ViolationCount int
	// RetryAfter is how long the service asks to wait, zero when it does not say.
	RetryAfter time.Duration

	hasRetryInfo bool
	cause        error
}

// Violation is one broken rule of a request.
type Violation struct {
	// Field says where: a path such as "gangs[2].name" or "objects[7].spec.containers".
	Field string
	// Description says which rule.
	Description string
}

// Error says what went wrong, every violation on a line of its own.
func (e *Error) Error() string {
	name := e.Code.String()
	if e.ReasonName != "" {
		name += " (" + e.ReasonName + ")"
	}
	if len(e.Violations) == 0 {
		return name + ": " + e.Message
	}
	lines := make([]string, 0, len(e.Violations)+2)
	lines = append(lines, name+":")
	for _, one := range e.Violations {
		lines = append(lines, "  "+one.Field+": "+one.Description)
	}
	if more := e.ViolationCount - len(e.Violations); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the error of gRPC.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus serves status.FromError, status.Code and servers that pass the error on.
func (e *Error) GRPCStatus() *status.Status { return status.Convert(e.cause) }

// Is makes a passed deadline context.DeadlineExceeded and a cancelled call context.Canceled.
func (e *Error) Is(target error) bool {
	switch target {
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	case context.Canceled:
		return e.Code == codes.Canceled
	default:
		return false
	}
}

// errorOf is the typed error for an error of gRPC, or of the client itself.
func errorOf(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	s := status.Convert(err)
	e := &Error{Code: s.Code(), Message: s.Message(), cause: err}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == Domain {
				e.ReasonName = detail.GetReason()
				e.Reason = placementv1.ErrorReason(placementv1.ErrorReason_value[reasonPrefix+e.ReasonName])
				e.Metadata = detail.GetMetadata()
			}
		case *errdetails.BadRequest:
			for _, one := range detail.GetFieldViolations() {
				e.Violations = append(e.Violations, Violation{one.GetField(), one.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.hasRetryInfo = true
			e.RetryAfter = max(detail.GetRetryDelay().AsDuration(), 0)
		}
	}
	e.ViolationCount = len(e.Violations)
	if count, err := strconv.Atoi(e.Metadata["violation_count"]); err == nil {
		e.ViolationCount = max(count, e.ViolationCount)
	}
	return e
}
