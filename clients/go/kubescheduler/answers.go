package kubescheduler

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"placement.example/clients/go/client"
	placementv1 "placement.example/clients/go/stubs/placement/v1"
)

// betweenChanges is how often gangs that have no room are asked about again while the cluster
// keeps changing.
const betweenChanges = time.Second

// isDue says whether there is a gang to ask about now.
func (s *state) isDue(retryAfter time.Duration) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, g := range s.gangs {
		if waiting := s.askableLocked(g); len(waiting) > 0 && s.isDueLocked(g, waiting, retryAfter) {
			return true
		}
	}
	return false
}

// askableLocked are the pods of a gang that the service may be asked about now.
func (s *state) askableLocked(g *gang) []*v1.Pod {
	s.refreshLocked(g)
	if g.fault != nil || len(g.releasing) > 0 || s.missingLocked(g) != "" || s.now().Before(g.notBefore) {
		return nil
	}
	waiting := s.waitingLocked(g)
	if g.isAlone {
		if s.now().Before(g.aloneUntil) {
			return nil
		}
		// It may have an answer again as long as the scheduler has not begun with it.
		for uid := range g.pods {
			if s.assumed[uid] != "" {
				return nil
			}
		}
	}
	return waiting
}

func (s *state) isDueLocked(g *gang, waiting []*v1.Pod, retryAfter time.Duration) bool {
	since := s.now().Sub(g.answered.at)
	return g.answered.pods != fingerprint(waiting) || since >= retryAfter ||
		(g.answered.version != s.version && since >= betweenChanges)
}

// question is about all gangs that wait: a gang that is asked about alone is placed without regard
// to the others. Those that only wait for room are asked about too.
func (s *state) question() *question {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	q := &question{asOf: s.now(), version: s.version, assumed: maps.Clone(s.assumed), gangOf: gangOf, marks: map[key]marks{}}
	for of, object := range s.podGangs {
		if found := marksOf(object.GetLabels()); found != nil {
			q.marks[of] = found
		}
	}
	asked := map[key]bool{}
	var bases []key
	for _, of := range slices.SortedFunc(maps.Keys(s.gangs), compareNames) {
		g := s.gangs[of]
		if s.now().Before(g.plannedUntil) {
			maps.Copy(q.assumed, g.planned)
		}
		waiting := s.askableLocked(g)
		if len(waiting) == 0 {
			continue
		}
		if g.silentSince.IsZero() {
			g.silentSince = s.now()
		}
		object := s.podGangs[of]
		if object == nil {
			object = g.shape.podGang(of, g.oldest())
		}
		q.gangs = append(q.gangs, askedGang{of, object, waiting})
		asked[of] = true
		for _, pod := range waiting {
			if base := pod.Labels[baseLabel]; base != "" {
				bases = append(bases, key{Namespace: of.Namespace, Name: base})
			}
		}
	}
	for _, base := range bases {
		if object := s.podGangs[base]; object != nil && !asked[base] {
			asked[base] = true
			q.bases = append(q.bases, object)
		}
	}
	return q
}

// patience is how long the gang that waited longest will still wait for an answer.
func (s *state) patience(q *question, fallbackAfter time.Duration) (time.Duration, bool) {
	if fallbackAfter < 0 {
		return 0, false
	}
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	left, isLimited := fallbackAfter, false
	for _, one := range q.gangs {
		if g := s.gangs[one.key]; g != nil && !g.isAlone && !g.silentSince.IsZero() {
			left, isLimited = min(left, fallbackAfter-s.now().Sub(g.silentSince)), true
		}
	}
	return left, isLimited
}

// letGo stops waiting for an answer after so long (never, if that is negative), and returns the
// pods that may go without one.
func (s *state) letGo(after time.Duration) []*v1.Pod {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var pods []*v1.Pod
	for _, g := range s.gangs {
		isOver := after >= 0 && !g.silentSince.IsZero() && s.now().Sub(g.silentSince) >= after
		if !g.isAlone && !isOver {
			continue
		}
		s.refreshLocked(g)
		waiting := s.waitingLocked(g)
		if !g.isAlone {
			if len(waiting) == 0 || g.fault != nil || s.missingLocked(g) != "" {
				g.silentSince = time.Time{}
				continue
			}
			g.isAlone, g.sentAlone = true, map[types.UID]bool{}
		}
		for _, pod := range waiting {
			if !g.sentAlone[pod.UID] {
				g.sentAlone[pod.UID] = true
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// An outcome is what is to be done after an answer.
type outcome struct {
	placed   int
	activate []*v1.Pod
	waiting  []waitingGang
}

// A waitingGang is a gang, and why it waits.
type waitingGang struct {
	key     key
	pods    []*v1.Pod
	message string
}

// accept takes an answer as far as it is still valid: a gang whose pods have changed since is asked
// about again. The nodes hold for a while; pods that are not bound by then are asked about again.
func (s *state) accept(q *question, placement *placementv1.Placement, valid time.Duration) outcome {
	nodes := nodesByPod(placement)
	results := map[string]*placementv1.GangResult{}
	for _, result := range placement.GetGangs() {
		results[result.GetName()] = result
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var out outcome
	for _, one := range q.gangs {
		g := s.gangs[one.key]
		result := results["namespaces/"+one.key.Namespace+"/podgangs/"+one.key.Name]
		if g == nil || result == nil {
			continue
		}
		g.silentSince = time.Time{}
		g.answered = answered{fingerprint(one.waiting), q.version, s.now()}
		if fingerprint(s.askableLocked(g)) != fingerprint(one.waiting) {
			// Pods came, went or got nodes while the service computed.
			g.answered = answered{}
			s.signal()
			continue
		}
		g.isAlone = false
		g.message = ""
		if !result.GetPlaced() {
			g.message = reasonsOf(result)
			out.waiting = append(out.waiting, waitingGang{one.key, one.waiting, g.message})
			continue
		}
		out.placed++
		planned := map[types.UID]string{}
		for _, pod := range one.waiting {
			if node := nodes[nameOf(pod)]; node != "" {
				planned[pod.UID] = node
				out.activate = append(out.activate, pod)
			}
		}
		if s.now().Before(g.plannedUntil) {
			maps.Copy(planned, g.planned)
		}
		g.planned, g.plannedUntil = planned, s.now().Add(valid)
		if len(planned) < len(one.waiting) {
			g.message = reasonsOf(result)
		}
		// Pods that stay behind keep the message that they have.
		g.answered.pods = fingerprint(s.waitingLocked(g))
	}
	return out
}

// nodesByPod are the nodes that an answer gives pods.
func nodesByPod(placement *placementv1.Placement) map[types.NamespacedName]string {
	nodes := map[types.NamespacedName]string{}
	for _, binding := range placement.GetBindings() {
		namespace, pod, podErr := client.PodName(binding.GetPod())
		node, nodeErr := client.NodeName(binding.GetNode())
		if podErr == nil && nodeErr == nil {
			nodes[types.NamespacedName{Namespace: namespace, Name: pod}] = node
		}
	}
	return nodes
}

// refuse records gangs that the service refuses. They are asked about again when something changes,
// or after a while.
func (s *state) refuse(faults map[key]string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for of, fault := range faults {
		if g := s.gangs[of]; g != nil {
			g.message = "the placement service refuses the gang: " + fault
			g.answered = answered{fingerprint(s.waitingLocked(g)), s.version, s.now()}
			g.silentSince = time.Time{}
		}
	}
}

func (s *state) waitingOf(faults map[key]string) []waitingGang {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var waiting []waitingGang
	for of := range faults {
		if g := s.gangs[of]; g != nil {
			waiting = append(waiting, waitingGang{of, s.waitingLocked(g), g.message})
		}
	}
	return waiting
}

// troubles are gangs that cannot be asked about, and why. A gang that only just began is given
// time for its other pods.
func (s *state) troubles(patience time.Duration) []waitingGang {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var troubles []waitingGang
	for of, g := range s.gangs {
		waiting := s.waitingLocked(g)
		if len(waiting) == 0 || s.now().Sub(g.since) < patience {
			continue
		}
		s.refreshLocked(g)
		message := s.missingLocked(g)
		if g.fault != nil {
			message = g.fault.Error()
		}
		if message != "" {
			troubles = append(troubles, waitingGang{of, waiting, message})
		}
	}
	return troubles
}

func (s *state) has(of key) bool {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return s.gangs[of] != nil
}

// fingerprint distinguishes sets of pods.
func fingerprint(pods []*v1.Pod) string {
	uids := make([]string, 0, len(pods))
	for _, pod := range pods {
		uids = append(uids, string(pod.UID))
	}
	slices.Sort(uids)
	return strings.Join(uids, " ")
}
