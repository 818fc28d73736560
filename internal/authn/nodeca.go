package authn

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const (
	// NodeCertificateFor is how long a node's certificate is good; its agent
	// renews it well before.
	NodeCertificateFor = 24 * time.Hour
	// CertificateSkew is how long before it was issued a certificate begins.
	CertificateSkew    = 5 * time.Minute
	doorCertificateFor = 90 * 24 * time.Hour
	caFor              = 20 * 365 * 24 * time.Hour
	clockSkew          = CertificateSkew
)

// nodeCA signs nodes' certificates and the node door's own.
type nodeCA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func caMake(cloudID string, now time.Time) (der, pkcs8 []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the node CA's key: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Tenon nodes of " + cloudID},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(caFor),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if der, err = x509.CreateCertificate(rand.Reader, t, t, key.Public(), key); err != nil {
		return nil, nil, fmt.Errorf("sign the node CA's certificate: %w", err)
	}
	if pkcs8, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return nil, nil, fmt.Errorf("write the node CA's key: %w", err)
	}
	return der, pkcs8, nil
}

func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	return n.Add(n, big.NewInt(1))
}

// NodeCertificate is what a node gets.
type NodeCertificate struct {
	PEM      string
	Serial   string // lower-case hexadecimal
	NotAfter time.Time
}

// NodeSign makes a node's certificate from its signing request. Only the
// request's public key is taken from it: who the node is, we say.
func (k *Keys) NodeSign(csrPEM string, id cloud.NodeID, now time.Time) (NodeCertificate, error) {
	bad := func(err error) error {
		return cloud.Invalid(cloud.Field{Location: "body.csr", Message: "not a PEM certificate request with an ECDSA P-256 or Ed25519 key"}).Wrap(err)
	}
	block, _ := pem.Decode([]byte(csrPEM))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return NodeCertificate{}, bad(nil)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return NodeCertificate{}, bad(err)
	}
	if err := csr.CheckSignature(); err != nil {
		return NodeCertificate{}, bad(err)
	}
	switch pub := csr.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if pub.Curve != elliptic.P256() {
			return NodeCertificate{}, bad(nil)
		}
	default:
		if csr.PublicKeyAlgorithm != x509.Ed25519 {
			return NodeCertificate{}, bad(nil)
		}
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: id.String()}, URIs: []*url.URL{k.nodeURI(id)},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(NodeCertificateFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, k.ca.cert, csr.PublicKey, k.ca.key)
	if err != nil {
		return NodeCertificate{}, fmt.Errorf("sign the certificate of %s: %w", id, err)
	}
	return NodeCertificate{PEM: certPEM(der), Serial: SerialText(t.SerialNumber), NotAfter: t.NotAfter}, nil
}

func (k *Keys) nodeURI(id cloud.NodeID) *url.URL {
	return &url.URL{Scheme: "tenon", Host: k.cloudID, Path: "/node/" + id.String()}
}

// NodeOf reads the node's id from a certificate that TLS has verified against
// CAPool. A certificate of another cloud, or of the door itself, names no node.
func (k *Keys) NodeOf(cert *x509.Certificate) (cloud.NodeID, error) {
	var id cloud.NodeID
	if len(cert.URIs) == 1 && cert.URIs[0].Scheme == "tenon" && cert.URIs[0].Host == k.cloudID {
		if text, ok := strings.CutPrefix(cert.URIs[0].Path, "/node/"); ok {
			if err := id.UnmarshalText([]byte(text)); err == nil {
				return id, nil
			}
		}
	}
	return id, cloud.E(cloud.KindUnauthenticated, "certificate_unknown", "the certificate names no node of this cloud")
}

// CAPool verifies nodes' certificates.
func (k *Keys) CAPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(k.ca.cert)
	return pool
}

// CAPEM is the certificate by which a node knows the door.
func (k *Keys) CAPEM() string { return certPEM(k.ca.cert.Raw) }

// DoorCertificate makes the node door's own server certificate.
func (k *Keys) DoorCertificate(hosts []string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the node door's key: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Tenon node door of " + k.cloudID},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(doorCertificateFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, k.ca.cert, key.Public(), k.ca.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign the node door's certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, k.ca.cert.Raw}, PrivateKey: key}, nil
}

// SerialText is how certificates' serial numbers are kept.
func SerialText(n *big.Int) string { return n.Text(16) }

func certPEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
