package client

import (
	"maps"
	"slices"
)

// copies are messages by name, and the changes since the base in order. The messages themselves
// never change.
type copies[K comparable, V any] struct {
	now     map[K]V
	changes []change[K]
	compare func(a, b K) int
	equal   func(a, b V) bool
}

// A change is a name that changed, and whether it was there before.
type change[K comparable] struct {
	state    int
	name     K
	wasThere bool
}

func newCopies[K comparable, V any](compare func(a, b K) int, equal func(a, b V) bool) copies[K, V] {
	return copies[K, V]{now: map[K]V{}, compare: compare, equal: equal}
}

// differs says whether setting it would change something.
func (c *copies[K, V]) differs(name K, value V) bool {
	before, isThere := c.now[name]
	return !isThere || !c.equal(before, value)
}

func (c *copies[K, V]) set(state int, name K, value V) {
	_, isThere := c.now[name]
	c.changes = append(c.changes, change[K]{state, name, isThere})
	c.now[name] = value
}

func (c *copies[K, V]) remove(state int, names ...K) {
	for _, name := range names {
		if _, isThere := c.now[name]; isThere {
			delete(c.now, name)
			c.changes = append(c.changes, change[K]{state, name, true})
		}
	}
}

// keep removes all but these.
func (c *copies[K, V]) keep(state int, kept map[K]bool) {
	for name := range c.now {
		if !kept[name] {
			c.remove(state, name)
		}
	}
}

func (c *copies[K, V]) all() []V {
	all := make([]V, 0, len(c.now))
	for _, name := range slices.SortedFunc(maps.Keys(c.now), c.compare) {
		all = append(all, c.now[name])
	}
	return all
}

// since returns what was set since the base, and the names that are gone.
func (c *copies[K, V]) since() (set []V, gone []K) {
	wasThere := map[K]bool{}
	for _, one := range c.changes {
		if _, isKnown := wasThere[one.name]; !isKnown {
			wasThere[one.name] = one.wasThere
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(wasThere), c.compare) {
		if value, isThere := c.now[name]; isThere {
			set = append(set, value)
		} else if wasThere[name] {
			gone = append(gone, name)
		}
	}
	return set, gone
}

// forget drops the changes up to a state.
func (c *copies[K, V]) forget(state int) {
	c.changes = slices.DeleteFunc(c.changes, func(one change[K]) bool { return one.state <= state })
}
