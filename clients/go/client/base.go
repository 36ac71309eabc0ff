package client

import "sync"

// A base is what the service is known to hold of a session. Its mutex guards the whole session.
type base struct {
	mutex sync.Mutex
	// state counts changes; the service knows an earlier one.
	state int
	// digest of what the service knows, empty when it knows nothing, and its state.
	digest string
	known  int
}

// learn records that the service knows a state, unless it knows a later one; it says whether it
// did. The caller holds the mutex.
func (b *base) learn(digest string, state int) bool {
	// An earlier state is of no use, even if the base was lost: the changes after it are forgotten.
	if digest == "" || state < b.known {
		return false
	}
	b.digest, b.known = digest, state
	return true
}

// forget records that the service does not know a digest.
func (b *base) forget(digest string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.digest == digest {
		b.digest = ""
	}
}
