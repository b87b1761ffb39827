// Package mesosconn is the scheduler's one door to the Mesos master: it keeps the subscription of the v1 scheduler HTTP
// API alive, turns what the master says into core.Event, and sends calls.
//
// It is a small client of its own on net/http, with mesos-go's messages: each attempt to subscribe has a stream id, a
// reader and a watchdog of its own, so that nothing of a dead subscription can reach a live one (a fault of mesos-go's
// own client). The wire format is protobuf, since JSON can carry neither an infinite limit nor an unknown state.
//
// Order of calls: New, then Run, which lives until its context ends or until the master says something that trying again
// cannot mend. Accept, Decline and the other calls may be made from any goroutine while Run lives; calls whose order
// matters are made from one goroutine, one after the other. Run owns the only goroutine that reads the stream; events are
// posted from it in the order of the stream.
//
// Errors of calls have a kind: errdefs.ErrUnavailable, the master surely did not take the call (no subscription, no
// connection, not the leader); errdefs.ErrLost, the call was sent and its outcome is not known; errdefs.ErrRefused, the
// master said no; errdefs.ErrInvalid, the call cannot be encoded.
package mesosconn
