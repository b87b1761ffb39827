// Package cache brings bundles onto a host and keeps them there, for all executors of all frameworks on it. It exists
// because 270 MB per sandbox, fetched anew each time, and Mesos' minute for an executor's registration do not go together.
//
// Order of calls: Cache.Acquire finds or brings a bundle and returns its folder, held until Release; a keeper holds what
// it ever ran until it ends, since the shims of its pods go on using their runc. Nothing outlives a call; there are no
// goroutines but those of the HTTP client.
//
//	DIR/<digest>/         the bundle, complete: it is renamed to this when all of it is on the disk
//	DIR/<digest>.part     its archive as far as it has come; whoever comes next goes on from there
//	DIR/<digest>.unpack/  on its way from the one to the other
//	DIR/<digest>.lock     flock: shared by those who use it, exclusive for who brings or removes it; its time is the last use
package cache
