package imagebuild

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// pack writes the tree as one compressed layer: names in order, times not
// after the release's, no device nodes, sockets or file capabilities.
func pack(ctx context.Context, tree, blob string, stamp stampTime, progress Progress) (v1.Layer, error) {
	file, err := os.OpenFile(blob, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create layer: %w", err)
	}
	err = writeLayer(ctx, file, tree, stamp, progress)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	layer, err := tarball.LayerFromFile(blob, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("read layer back: %w", err)
	}
	return layer, nil
}

func writeLayer(ctx context.Context, w io.Writer, tree string, stamp stampTime, progress Progress) error {
	zip, err := gzip.NewWriterLevel(w, 4)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zip)
	links := map[uint64]string{} // inode → first name
	var written int64
	err = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rel, err := filepath.Rel(tree, path)
		if err != nil || rel == "." {
			return err
		}
		header, err := headerFor(path, rel, d, stamp, links)
		if header == nil || err != nil {
			return err
		}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if header.Typeflag == tar.TypeReg {
			n, err := copyFile(out, path)
			if err != nil {
				return err
			}
			written += n
			progress("pack the image", written, 0)
		}
		return nil
	})
	return errors.Join(err, out.Close(), zip.Close())
}

// headerFor describes one file, or nothing for what an image must not hold.
func headerFor(path, rel string, d fs.DirEntry, stamp stampTime, links map[uint64]string) (*tar.Header, error) {
	if filepath.Dir(rel) == "dev" || d.Type()&(fs.ModeDevice|fs.ModeSocket|fs.ModeNamedPipe) != 0 {
		return nil, nil
	}
	info, err := d.Info()
	if err != nil {
		return nil, err
	}
	target := ""
	if d.Type()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return nil, err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	header.Format = tar.FormatPAX
	header.Name = rel
	if d.IsDir() {
		header.Name += "/"
	}
	header.Uname, header.Gname, header.PAXRecords = "", "", nil
	header.ModTime = info.ModTime().UTC().Truncate(1e9)
	if header.ModTime.After(stamp) {
		header.ModTime = stamp
	}
	header.AccessTime, header.ChangeTime = stampTime{}, stampTime{}
	if d.Type().IsRegular() && !setuidKept[rel] {
		header.Mode &^= 0o6000
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("%s: the file system gives no owner", rel)
	}
	header.Uid, header.Gid = int(stat.Uid), int(stat.Gid)
	if d.Type().IsRegular() && stat.Nlink > 1 {
		if first, seen := links[stat.Ino]; seen {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
		} else {
			links[stat.Ino] = rel
		}
	}
	return header, nil
}

func copyFile(w io.Writer, path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(w, f)
	return n, errors.Join(err, f.Close())
}
