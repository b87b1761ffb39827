package offers

import (
	"container/heap"
	"time"
)

// expiry is when the time of an offer passes.
type expiry struct {
	until         time.Time
	offerID, role string
}

// expiries is a heap with the first one on top, so that a step looks at none of ten thousand offers whose time has not come.
type expiries []expiry

// leastExpiries are not worth to be looked through for those that are over.
const leastExpiries = 64

func (e *expiries) push(one expiry) { heap.Push((*ordered)(e), one) }
func (e *expiries) pop()            { heap.Pop((*ordered)(e)) }

// ordered is expiries as container/heap wants them.
type ordered []expiry

// Len, Less, Swap, Push and Pop are heap.Interface.
func (o ordered) Len() int           { return len(o) }
func (o ordered) Less(i, j int) bool { return o[i].until.Before(o[j].until) }
func (o ordered) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o *ordered) Push(one any)      { *o = append(*o, one.(expiry)) }

func (o *ordered) Pop() any {
	last := len(*o) - 1
	one := (*o)[last]
	*o = (*o)[:last]
	return one
}
