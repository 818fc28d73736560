package agent

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const identityFormat = 1

// Identity is who this node is. It is one file (0600), so that the key and its
// certificate can't part in a crash.
type Identity struct {
	Format      int    `json:"format"`
	NodeID      string `json:"node_id"`
	CloudID     string `json:"cloud_id"`
	Key         string `json:"key"`         // PEM
	Certificate string `json:"certificate"` // PEM
	CA          string `json:"ca"`          // PEM
}

func identityPath(stateDir string) string { return filepath.Join(stateDir, "identity.json") }

// loadIdentity reads it; nil when the node has not enrolled.
func loadIdentity(stateDir string) (*Identity, error) {
	path := identityPath(stateDir)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // not enrolled is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	var id Identity
	if err := json.Unmarshal(raw, &id); err != nil {
		return nil, fmt.Errorf("read identity: %s is damaged; restore it, or remove it and enrol again with a new join token: %w", path, err)
	}
	if id.Format != identityFormat {
		return nil, fmt.Errorf("read identity: %s has format %d, this agent reads %d", path, id.Format, identityFormat)
	}
	if _, err := id.keyPair(); err != nil {
		return nil, fmt.Errorf("read identity: %s: %w", path, err)
	}
	return &id, nil
}

func (id *Identity) save(stateDir string) error {
	raw, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	if err := writeDurably(identityPath(stateDir), raw); err != nil {
		return fmt.Errorf("save identity: %w", err)
	}
	return nil
}

func (id *Identity) keyPair() (tls.Certificate, error) {
	c, err := tls.X509KeyPair([]byte(id.Certificate), []byte(id.Key))
	if err != nil {
		return c, fmt.Errorf("read certificate: %w", err)
	}
	if c.Leaf == nil {
		c.Leaf, err = x509.ParseCertificate(c.Certificate[0])
	}
	return c, err
}

// renewAt is two thirds into the certificate's life.
func renewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)
}

// newIdentity checks that an answer fits the key that it was asked with.
func newIdentity(keyPEM []byte, resp nodewire.EnrollResponse) (*Identity, error) {
	id := &Identity{
		Format: identityFormat, NodeID: resp.NodeID, CloudID: resp.CloudID,
		Key: string(keyPEM), Certificate: resp.Certificate, CA: resp.CA,
	}
	if _, err := id.keyPair(); err != nil {
		return nil, fmt.Errorf("take certificate: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(resp.CA)) {
		return nil, errors.New("take certificate: the answer holds no CA")
	}
	if resp.NodeID == "" {
		return nil, errors.New("take certificate: the answer holds no node id")
	}
	return id, nil
}

func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// newCSR asks for a certificate for a key; the name is a wish, the control
// plane decides.
func newCSR(keyPEM []byte, name string) (string, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return "", errors.New("make certificate request: the key is damaged")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("make certificate request: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return "", errors.New("make certificate request: the key can't sign")
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, signer)
	if err != nil {
		return "", fmt.Errorf("make certificate request: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}
