// Package image makes base images: the read-only directories under every
// sandbox. They come from a Debian bootstrap ("debian:SUITE"), from a registry
// ("registry/repository:tag") or from an OCI layout on disk
// ("oci-layout:DIR").
//
// It starts no sandbox and knows no repository. Layers are directories in the
// form overlayfs takes as lower directories, topmost first.
//
// Invariants: a layer directory under layers/ is complete and never changes;
// it is written aside, put on disk and renamed. Equal layers are stored once.
// One process at a time makes one layer. What an image says never leads to a
// write outside its layer's directory, to a device node, or past the limits of
// Options.
//
// A Store may be used by many goroutines and by several processes on one
// directory.
//
//	store, err := image.New(image.Options{Dir: dir, Environ: os.Environ()})
//	img, err := store.Ensure(ctx, image.Request{Base: "debian:bookworm", Packages: []string{"redis-server"}})
package image
