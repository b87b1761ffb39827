// Package zpages is what the pages of scheduler and executor have in common: health endpoints as Kubernetes' own have them, a
// server that waits for its address, answers as HTML and JSON, one look, and a journal of what happened last.
//
// Why it exists: both programs show themselves to people and to monitoring, and whoever knows the pages of one finds everything
// in the same place at the other. It knows nothing of either.
//
// Order of calls: Serve with a handler, from which Health, Page and JSON answer. Serve owns the goroutines of the server; a
// Journal has no goroutine and no lock.
package zpages
