package registry

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	blobMaximum = 256 << 30 // of one blob; a VM's disk is one
	freeMinimum = 1 << 30   // of the folder's file system; the database may lie there too
)

// push bounds what one upload may bring, and refuses all while the disk is nearly
// full: a tenant's push must not stop the cloud.
func (h *Handler) push(w http.ResponseWriter, r *http.Request) {
	if free, ok := freeBytes(h.folder); ok && free < h.keepFree {
		refusePush(w, http.StatusInsufficientStorage, "the registry's disk is nearly full: nothing can be pushed until the operator makes room")
		return
	}
	if begins(r)+max(0, r.ContentLength) > h.maxBlob {
		refusePush(w, http.StatusRequestEntityTooLarge, tooLarge(h.maxBlob))
		return
	}
	body := &counted{ReadCloser: r.Body, left: h.maxBlob - begins(r)}
	r.Body = body
	h.app.ServeHTTP(&better{ResponseWriter: w, than: func(status int) *reply { // it only knows that reading failed
		if status < 400 || !body.over {
			return nil
		}
		return refusal(w, http.StatusRequestEntityTooLarge, tooLarge(h.maxBlob))
	}}, r)
}

func isUpload(r *http.Request) bool {
	return (r.Method == http.MethodPost || r.Method == http.MethodPatch || r.Method == http.MethodPut) && strings.Contains(r.URL.Path, "/blobs/uploads/")
}

// begins is where a chunk says that it begins; the library checks that it does.
func begins(r *http.Request) int64 {
	text, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Content-Range"), "bytes "), "-")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func tooLarge(maximum int64) string {
	return fmt.Sprintf("a blob has at most %d MiB here", maximum>>20)
}

// refusePush answers in the protocol's own form, which clients show.
func refusePush(w http.ResponseWriter, status int, message string) {
	refusal(w, status, message).write(w)
}

func refusal(w http.ResponseWriter, status int, message string) *reply {
	w.Header().Set("Connection", "close") // the rest of the body is not read
	return &reply{status, "SIZE_INVALID", message, ""}
}

// counted ends a body that goes on too long.
type counted struct {
	io.ReadCloser
	left int64
	over bool
}

func (c *counted) Read(p []byte) (int, error) {
	if c.over {
		return 0, errOver
	}
	n, err := c.ReadCloser.Read(p)
	if c.left -= int64(n); c.left < 0 {
		c.over = true
		return 0, errOver
	}
	return n, err
}

var errOver = fmt.Errorf("the blob is too large")

func freeBytes(folder string) (int64, bool) {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * s.Bsize, true
}
