package resources

import (
	"fmt"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Plus is the sum of both.
func (b Bag) Plus(other Bag) Bag {
	if len(b) == 0 {
		return other
	}
	if len(other) == 0 {
		return b
	}
	sum := make(Bag, 0, max(len(b), len(other)))
	for len(b) > 0 && len(other) > 0 {
		switch order := strings.Compare(b[0].key, other[0].key); {
		case order < 0:
			sum, b = append(sum, b[0]), b[1:]
		case order > 0:
			sum, other = append(sum, other[0]), other[1:]
		default:
			sum = append(sum, plus(b[0], other[0]))
			b, other = b[1:], other[1:]
		}
	}
	return append(append(sum, b...), other...)
}

// Minus is what is left of b without other; what b does not have is ignored.
func (b Bag) Minus(other Bag) Bag {
	if len(b) == 0 || len(other) == 0 {
		return b
	}
	rest := make(Bag, 0, len(b))
	for _, item := range b {
		for len(other) > 0 && other[0].key < item.key {
			other = other[1:]
		}
		if len(other) > 0 && other[0].key == item.key {
			item = minus(item, other[0])
		}
		if !item.empty() {
			rest = append(rest, item)
		}
	}
	return rest
}

// Contains tells whether all of other is in b.
func (b Bag) Contains(other Bag) bool {
	for _, want := range other {
		at, found := slices.BinarySearchFunc(b, want.key, func(i Item, key string) int { return strings.Compare(i.key, key) })
		if !found || !minus(want, b[at]).empty() {
			return false
		}
	}
	return true
}

// Only keeps the items for which keep is true.
func (b Bag) Only(keep func(Item) bool) Bag {
	for n := range b {
		if keep(b[n]) {
			continue
		}
		rest := slices.Clone(b[:n])
		for _, item := range b[n+1:] {
			if keep(item) {
				rest = append(rest, item)
			}
		}
		return rest
	}
	return b
}

// Scalars sums up scalars by name, reserved or not. The amounts are thousandths.
func (b Bag) Scalars() map[string]int64 {
	sum := make(map[string]int64, len(b))
	for _, item := range b {
		if item.kind.GetType() == mesos.SCALAR && !item.Revocable() {
			sum[item.kind.Name] += item.Milli
		}
	}
	return sum
}

// Scalar is the sum of one scalar, reserved or not, in thousandths.
func (b Bag) Scalar(name string) (milli int64) {
	for n := range b {
		if b[n].kind.Name == name {
			milli += b[n].Milli
		}
	}
	return milli
}

// AtMost caps an unreserved scalar.
func (b Bag) AtMost(name string, milli int64) Bag {
	rest := make(Bag, 0, len(b))
	for _, item := range b {
		if item.kind.Name == name && item.Role() == Unreserved {
			item.Milli = min(item.Milli, max(0, milli))
		}
		if !item.empty() {
			rest = append(rest, item)
		}
	}
	return rest
}

// Equal tells whether both hold the same.
func (b Bag) Equal(other Bag) bool { return b.Contains(other) && other.Contains(b) }

// String is the resources in the notation of the agent's flag --resources, for messages.
func (b Bag) String() string {
	var parts []string
	for _, item := range b {
		name := item.kind.Name
		if role := item.Role(); role != Unreserved {
			name += "(" + role + ")"
		}
		value := fmt.Sprint(float64(item.Milli) / 1000)
		switch {
		case item.Spans != nil:
			var spans []string
			for _, s := range item.Spans {
				spans = append(spans, fmt.Sprintf("%d-%d", s.Begin, s.End))
			}
			value = "[" + strings.Join(spans, ",") + "]"
		case item.Set != nil:
			value = "{" + strings.Join(item.Set, ",") + "}"
		}
		parts = append(parts, name+":"+value)
	}
	return strings.Join(parts, ";")
}

func plus(a, b Item) Item {
	a.Milli += b.Milli
	if a.Shared() {
		a.Milli -= b.Milli // the same thing twice is the same thing
	}
	a.Spans = tidy(append(slices.Clone(a.Spans), b.Spans...))
	if len(b.Set) > 0 {
		a.Set = append(slices.Clone(a.Set), b.Set...)
		slices.Sort(a.Set)
		a.Set = slices.Compact(a.Set)
	}
	return a
}

func minus(a, b Item) Item {
	a.Milli = max(0, a.Milli-b.Milli)
	for _, hole := range b.Spans {
		var rest []Span
		for _, span := range a.Spans {
			if hole.End < span.Begin || span.End < hole.Begin {
				rest = append(rest, span)
				continue
			}
			if span.Begin < hole.Begin {
				rest = append(rest, Span{span.Begin, hole.Begin - 1})
			}
			if hole.End < span.End {
				rest = append(rest, Span{hole.End + 1, span.End})
			}
		}
		a.Spans = rest
	}
	if len(b.Set) > 0 {
		a.Set = slices.DeleteFunc(slices.Clone(a.Set), func(s string) bool { return slices.Contains(b.Set, s) })
	}
	return a
}

// tidy sorts spans and joins those that touch.
func tidy(spans []Span) []Span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b Span) int {
		switch {
		case a.Begin < b.Begin:
			return -1
		case a.Begin > b.Begin:
			return 1
		}
		return 0
	})
	joined := spans[:1]
	for _, span := range spans[1:] {
		last := &joined[len(joined)-1]
		if span.Begin <= last.End+1 {
			last.End = max(last.End, span.End)
			continue
		}
		joined = append(joined, span)
	}
	return joined
}
