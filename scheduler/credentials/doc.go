// Package credentials gives executors their client certificates, so that neither ExecutorInfo nor a file on each agent
// has to hold a secret that lives long. An executor shows the one-time token of its launch envelope, or the certificate
// that it has when that is to be renewed, and brings two certificate requests; the API server's own signers sign them.
//
//	launch:   Mint ─▶ token into the envelope, its hash into Tokens
//	executor: POST CredentialsPath {token, CSRs} ─▶ Handler ─▶ Tokens.Redeem, Deps.Runs, CheckCSR ─▶ Deps.Sign ×2
//
// [Tokens] and [CheckCSR] are pure: what they decide on comes in as arguments. [Handler] and [CSRSigner] act; they own no
// goroutines. Nothing here logs or returns a token.
package credentials
