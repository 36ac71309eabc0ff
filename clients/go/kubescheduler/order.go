package kubescheduler

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// before orders the queue: by priority, then gang by gang, the oldest first. Times of pods
// without a gang are those of the queue.
func (s *state) before(a, b *v1.Pod, aTime, bTime time.Time) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	x, y := s.orderLocked(a, aTime), s.orderLocked(b, bTime)
	if x.priority != y.priority {
		return x.priority > y.priority
	}
	if !x.since.Equal(y.since) {
		return x.since.Before(y.since)
	}
	if x.of != y.of {
		return compareNames(x.of, y.of) < 0
	}
	return compareNames(nameOf(a), nameOf(b)) < 0
}

type order struct {
	priority int32
	since    time.Time
	of       key
}

func (s *state) orderLocked(pod *v1.Pod, since time.Time) order {
	if of, isMember := gangOf(pod); isMember {
		if g := s.gangs[of]; g != nil {
			return order{g.priority, g.since, of}
		}
	}
	return order{priorityOf(pod), since, nameOf(pod)}
}

func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
