package kubescheduler

import "maps"

// marks are labels that name a queue, and say whether pods may give way. Of gangs that run the
// pods alone are sent, so that what a gang says is written on them.
type marks map[string]string

// markNames are those of KAI, Koordinator and Kueue.
var markNames = []string{
	"kai.scheduler/queue", "kai.scheduler/preemptibility",
	"quota.scheduling.koordinator.sh/name", "quota.scheduling.koordinator.sh/preemptible",
	"scheduling.koordinator.sh/disable-preemptible",
	"kueue.x-k8s.io/queue-name",
}

// marksOf are the marks among a gang's labels; nil when there are none.
func marksOf(labels map[string]string) marks {
	var found marks
	for _, name := range markNames {
		if value, has := labels[name]; has {
			if found == nil {
				found = marks{}
			}
			found[name] = value
		}
	}
	return found
}

// on are labels of a pod with the marks.
func (m marks) on(labels map[string]string) map[string]string {
	if len(m) == 0 {
		return labels
	}
	marked := maps.Clone(labels)
	if marked == nil {
		marked = map[string]string{}
	}
	maps.Copy(marked, m)
	return marked
}
