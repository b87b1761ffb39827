// Package bundle is the archive that carries mesopod's programs and images to agents. It exists so that who packs (the
// verb `mesopod bundle`), who serves (the scheduler) and who unpacks (the keeper) mean the same thing, without Kubernetes
// code in the keeper.
//
// An archive is a tar in zstd. It is named by the SHA-256 of its bytes, its digest, and lies under that name wherever it
// can be had: BASE/DIGEST, be BASE a folder or a URL. The same programs make the same archive: entries are sorted, and
// owners, times and all modes but "executable" are left out.
//
// Order of calls: Create on one machine; there, Digest names it. Unpack on another, after the digest has been checked.
// There are no goroutines but those of a call.
package bundle
