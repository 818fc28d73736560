// Package authn proves who someone is: passwords, sessions with rotating
// refresh tokens, access JWTs, API tokens, and nodes' certificates. All secrets
// at rest are hashes, or sealed under the master key (decision 11).
//
// Imports: golang-jwt, x/crypto, internal/cloud.
package authn
