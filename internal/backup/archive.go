// Package backup copies a whole control plane into one file while it serves, and
// puts such a file back: the database as of one moment, the embedded registry and,
// where asked for, the master key.
//
// An archive is a tar file that is written from beginning to end:
//
//	tenon-backup.json    whose it is and of when
//	master.key           only where asked for
//	database/00000001…   pg_dump's custom format, in pieces
//	registry/…           manifests' links first, then the blobs, which they name
//	manifest.json        size and SHA-256 of every part; without it the archive is cut off
//
// Imports: authn, durable and postgres.
package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"strings"
	"time"
)

const (
	format       = 1
	headerName   = "tenon-backup.json"
	keyName      = "master.key"
	databaseName = "database"
	registryName = "registry"
	manifestName = "manifest.json"

	pieceBytes  = 4 << 20
	smallBytes  = 1 << 20   // the header, the key
	manifestMax = 256 << 20 // a part takes some 200 bytes
)

// Header is whose an archive is, and of when.
type Header struct {
	Format      int       `json:"format"`
	CloudID     string    `json:"cloud_id"`
	Era         string    `json:"era"`
	TakenAt     time.Time `json:"taken_at"`
	Version     string    `json:"version"`         // of tenond
	Schema      int64     `json:"schema"`          // the database's newest migration
	Server      int       `json:"postgres"`        // the database server's major version
	Key         string    `json:"key_fingerprint"` // of the master key that opens what is sealed in it
	WithKey     bool      `json:"with_key"`
	NoRegistry  bool      `json:"without_registry,omitempty"`
	DumpProgram string    `json:"dumped_by"`
}

// Part is a part of an archive and what it must be.
type Part struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

type manifest struct {
	Parts []Part `json:"parts"`
}

// ErrDamaged is an archive that is not what was written.
var ErrDamaged = errors.New("the archive is damaged or cut off")

// writer writes an archive.
type writer struct {
	tar  *tar.Writer
	list manifest
	at   time.Time
}

func newWriter(w io.Writer, at time.Time) *writer { return &writer{tar: tar.NewWriter(w), at: at} }

// add writes one part of a known size.
func (w *writer) add(name string, size int64, r io.Reader) error {
	sum := sha256.New()
	if err := w.entry(name, size); err != nil {
		return err
	}
	n, err := io.Copy(w.tar, io.TeeReader(io.LimitReader(r, size), sum))
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if n != size {
		return fmt.Errorf("write %s: it became shorter while it was read", name)
	}
	w.note(name, size, sum)
	return nil
}

func (w *writer) note(name string, size int64, sum hash.Hash) {
	w.list.Parts = append(w.list.Parts, Part{name, size, hex.EncodeToString(sum.Sum(nil))})
}

func (w *writer) entry(name string, size int64) error {
	if err := w.tar.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: size, ModTime: w.at, Format: tar.FormatPAX}); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// stream writes one part of an unknown size, in pieces.
func (w *writer) stream(name string, r io.Reader) error {
	sum := sha256.New()
	buf := make([]byte, pieceBytes)
	var total int64
	for i := 1; ; i++ {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := w.entry(fmt.Sprintf("%s/%08d", name, i), int64(n)); err != nil {
				return err
			}
			if _, err := w.tar.Write(buf[:n]); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
			sum.Write(buf[:n])
			total += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			w.note(name, total, sum)
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}

func (w *writer) json(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return w.add(name, int64(len(text)), bytes.NewReader(text))
}

// close writes the manifest, which makes the archive whole.
func (w *writer) close() error {
	text, err := json.Marshal(w.list)
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	if err := w.entry(manifestName, int64(len(text))); err != nil {
		return err
	}
	if _, err := w.tar.Write(text); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if err := w.tar.Close(); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	return nil
}

// sink takes the parts of an archive as they come; a nil function passes over
// them.
type sink struct {
	header   func(Header) error
	key      func([]byte) error
	database func(piece io.Reader) error
	registry func(path string, size int64, r io.Reader) error
}

// read goes through an archive, gives its parts away and compares all with the
// manifest. What was given away counts only when it returns no error.
func read(r io.Reader, to sink) (Header, []Part, error) {
	var h Header
	var found []Part
	var database struct {
		sum    hash.Hash
		bytes  int64
		pieces int
	}
	database.sum = sha256.New()
	t := tar.NewReader(r)
	for n := 0; ; n++ {
		e, err := t.Next()
		if err != nil {
			return h, nil, fmt.Errorf("%w: %w", ErrDamaged, err) // the manifest comes last, and ends this
		}
		if e.Typeflag != tar.TypeReg || !filepath.IsLocal(e.Name) || (n == 0) != (e.Name == headerName) {
			return h, nil, fmt.Errorf("%w: it holds %q where that can't be", ErrDamaged, e.Name)
		}
		sum := sha256.New()
		body := io.TeeReader(t, sum)
		switch folder, rest, _ := strings.Cut(e.Name, "/"); {
		case e.Name == headerName:
			if err := small(body, e.Size, &h); err != nil {
				return h, nil, err
			}
			if h.Format != format {
				return h, nil, fmt.Errorf("the archive has format %d, and this program reads %d: use the tenond that made it, version %s", h.Format, format, h.Version)
			}
			if to.header != nil {
				if err := to.header(h); err != nil {
					return h, nil, err
				}
			}
		case e.Name == manifestName:
			if database.pieces > 0 {
				found = append(found, Part{databaseName, database.bytes, hex.EncodeToString(database.sum.Sum(nil))})
			}
			return h, found, compare(body, e.Size, found)
		case e.Name == keyName:
			key, err := io.ReadAll(io.LimitReader(body, smallBytes))
			if err != nil {
				return h, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if to.key != nil {
				if err := to.key(key); err != nil {
					return h, nil, err
				}
			}
		case folder == databaseName:
			database.pieces++
			if rest != fmt.Sprintf("%08d", database.pieces) {
				return h, nil, fmt.Errorf("%w: piece %d of the database is missing", ErrDamaged, database.pieces)
			}
			piece := io.TeeReader(t, database.sum)
			if to.database != nil {
				if err := to.database(piece); err != nil {
					return h, nil, err
				}
			}
			if _, err := io.Copy(io.Discard, piece); err != nil {
				return h, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			database.bytes += e.Size
			continue
		case folder == registryName && rest != "":
			if to.registry != nil {
				if err := to.registry(rest, e.Size, body); err != nil {
					return h, nil, err
				}
			}
		default:
			return h, nil, fmt.Errorf("%w: it holds %q, which no backup does", ErrDamaged, e.Name)
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return h, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		found = append(found, Part{e.Name, e.Size, hex.EncodeToString(sum.Sum(nil))})
	}
}

func small(r io.Reader, size int64, v any) error {
	if size > smallBytes {
		return fmt.Errorf("%w: its first part is too large", ErrDamaged)
	}
	if err := json.NewDecoder(r).Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// compare holds what was found against the manifest, part by part.
func compare(r io.Reader, size int64, found []Part) error {
	if size > manifestMax {
		return fmt.Errorf("%w: its manifest is too large", ErrDamaged)
	}
	var m manifest
	if err := json.NewDecoder(r).Decode(&m); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	want := make(map[string]Part, len(m.Parts))
	for _, p := range m.Parts {
		want[p.Name] = p
	}
	for _, p := range found {
		w, ok := want[p.Name]
		if !ok || w != p {
			return fmt.Errorf("%w: %s is not what was written", ErrDamaged, p.Name)
		}
		delete(want, p.Name)
	}
	for name := range want {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, name)
	}
	return nil
}

// Verify reads a whole archive and compares every part with what was written.
func Verify(r io.Reader) (Header, []Part, error) { return read(r, sink{}) }
