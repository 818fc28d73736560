package authn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const replicaPath = "/replica/"

// ReplicaCertificate makes a control plane process's own certificate for the
// door between replicas: of the nodes' authority, with an identity that is no
// node's, so that neither is let in at the other's door.
func (k *Keys) ReplicaCertificate(id string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the replica's key: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Tenon replica of " + k.cloudID},
		URIs:      []*url.URL{{Scheme: "tenon", Host: k.cloudID, Path: replicaPath + id}},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(doorCertificateFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, k.ca.cert, key.Public(), k.ca.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign the replica's certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, k.ca.cert.Raw}, PrivateKey: key}, nil
}

// ReplicaOf verifies the chain that a peer has shown and reads which replica it
// is. A node's certificate, or the node door's, names none.
func (k *Keys) ReplicaOf(shown []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) (string, error) {
	refused := cloud.E(cloud.KindUnauthenticated, "certificate_unknown", "the certificate names no replica of this cloud")
	if len(shown) == 0 {
		return "", refused
	}
	if _, err := shown[0].Verify(x509.VerifyOptions{Roots: k.CAPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		return "", refused.Wrap(err)
	}
	if uris := shown[0].URIs; len(uris) == 1 && uris[0].Scheme == "tenon" && uris[0].Host == k.cloudID {
		if id, ok := strings.CutPrefix(uris[0].Path, replicaPath); ok && id != "" {
			return id, nil
		}
	}
	return "", refused
}
