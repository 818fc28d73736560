package authn

// Seal encrypts a secret of one row for the database. The purpose says what it
// is (registry_credential, user_data) and id whose: one row's secret can't be
// put in another's place.
func (k *Keys) Seal(purpose, id string, secret []byte) ([]byte, error) {
	return k.master.Seal(purpose, id, secret)
}

// Open decrypts what Seal made.
func (k *Keys) Open(purpose, id string, sealed []byte) ([]byte, error) {
	return k.master.Unseal(purpose, id, sealed)
}

// Purposes of what is sealed for a row.
const (
	SealCredential = "registry_credential" // a registry's password
	SealUserData   = "user_data"           // an instance's cloud-init data
)
