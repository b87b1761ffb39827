// Package credentials gets the executor its two client certificates from the scheduler and keeps them: system:node:NODE for
// the kubelet and mesopod:executor:NODE for itself. It exists so that nothing secret has to lie on an agent before the first
// pod comes, or be renewed there by hand.
//
// Order of calls: [Open] a folder; [Store.Request] makes keys and certificate requests; [Client.Ask] brings them to the
// scheduler; [Store.Save] writes the answer as two kubeconfigs, 0600; at [Store.RenewAt] all of it again, with new keys and
// with the certificate in place of the token. It owns no goroutines.
package credentials
