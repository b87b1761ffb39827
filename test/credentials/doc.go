// Package credentials is the suite about what executors get from their scheduler instead of files: certificates by
// one-time token, and new ones in time. Its scheduler has executors renew every few seconds, so all of it happens under
// running pods.
package credentials
