package authn

// Keys is every key that a control plane holds: for access JWTs and for nodes'
// certificates.
type Keys struct{}
