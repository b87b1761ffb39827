// Package credentials gets the executor its certificates from the scheduler and keeps them: system:node:NODE for the
// kubelet, mesopod:executor:NODE for itself, and what the kubelet's port answers with. It exists so that nothing secret has
// to lie on an agent before the first pod comes, or be renewed there by hand.
//
// Order of calls: [Open] a folder; [NewRenewer] on it; [Renewer.Run] in a goroutine of the caller's, which alone asks;
// [Renewer.Offer] with the access that each launch brings; [Renewer.Await] before the certificates are used. Below it,
// [Store.Request] makes keys and certificate requests, [Client.Ask] brings them to the scheduler, [Store.Save] writes the
// answer, 0600. When two thirds of the certificates' life are over it does all of it again, with new keys, and with the
// certificate in place of the token. It owns no goroutines.
package credentials
