package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"
)

// buildFlags is the command line of `build` as given, before any of it was checked.
type buildFlags struct {
	output, tag, user, workdir                 string
	adds, symlinks, dirs, entrypoint, cmd, env []string
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mesopod-image",
		Short:         "Build small OCI images without a registry",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	root.AddCommand(newBuildCommand())
	return root
}

func newBuildCommand() *cobra.Command {
	var flags buildFlags
	build := &cobra.Command{
		Use:   "build --output FILE --tag NAME:TAG [--add SRC:DEST[:MODE]] ...",
		Short: "Write one image as an archive that containerd imports",
		Long: `Write one image as an archive that containerd imports.

All files go into one layer, owned by root, with modification time 0 and in the order of their names, so the same
files give the same image id everywhere. Folders on the way to a file are made with mode 0755.`,
		Example: "  mesopod-image build --output pause.tar --tag mesopod.local/pause:1 --add bin/pause:/pause --entrypoint /pause",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBuild(flags, cmd.OutOrStdout())
		},
	}
	set := build.Flags()
	set.StringVar(&flags.output, "output", "", "the archive to write")
	set.StringVar(&flags.tag, "tag", "", "the image's name, with registry part and tag: mesopod.local/busybox:1")
	set.StringArrayVar(&flags.adds, "add", nil, "SRC:DEST[:MODE], a file or a whole folder; MODE is octal, else 0755 for what may be run and 0644 for other files")
	set.StringArrayVar(&flags.symlinks, "symlink", nil, "PATH:TARGET, a symbolic link at PATH")
	set.StringArrayVar(&flags.dirs, "dir", nil, "PATH[:MODE], an empty folder; MODE is octal, else 0755")
	set.StringArrayVar(&flags.entrypoint, "entrypoint", nil, "one word of the entrypoint; repeat for more")
	set.StringArrayVar(&flags.cmd, "cmd", nil, "one word of the default arguments; repeat for more")
	set.StringArrayVar(&flags.env, "env", nil, "NAME=VALUE; repeat for more")
	set.StringVar(&flags.user, "user", "", "the user as UID[:GID] or a name in the image's /etc/passwd")
	set.StringVar(&flags.workdir, "workdir", "", "the folder programs start in")
	return build
}

// runBuild writes the archive and tells the image's id (the digest of its configuration, as container tools show it).
func runBuild(flags buildFlags, out io.Writer) error {
	spec, err := flags.spec()
	if err != nil {
		return err
	}
	image, err := newImage(spec)
	if err != nil {
		return fmt.Errorf("build image %s: %w", flags.tag, err)
	}
	id, err := image.ConfigName()
	if err != nil {
		return fmt.Errorf("compute id of image %s: %w", flags.tag, err)
	}
	if err := writeArchive(flags.output, spec.tag, image); err != nil {
		return fmt.Errorf("write image %s: %w", flags.tag, err)
	}
	_, err = fmt.Fprintf(out, "%s %s %s\n", spec.tag.Name(), id, flags.output)
	return err
}

// writeArchive writes beside path and renames, so that a reader sees the old archive or the whole new one.
func writeArchive(path string, tag name.Tag, image v1.Image) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	err = tarball.Write(tag, image, file)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// spec checks the whole command line and tells every fault at once.
func (f buildFlags) spec() (imageSpec, error) {
	spec := imageSpec{
		config: v1.Config{Entrypoint: f.entrypoint, Cmd: f.cmd, Env: f.env, User: f.user, WorkingDir: f.workdir},
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if f.output == "" {
		fault("--output is missing: name the archive to write")
	}
	var err error
	if spec.tag, err = name.NewTag(f.tag, name.StrictValidation); err != nil {
		fault("--tag %q: want REGISTRY/NAME:TAG: %w", f.tag, err)
	}
	for _, env := range f.env {
		if key, _, found := strings.Cut(env, "="); !found || key == "" {
			fault("--env %q: want NAME=VALUE", env)
		}
	}
	if f.workdir != "" && !strings.HasPrefix(f.workdir, "/") {
		fault("--workdir %q: want an absolute path", f.workdir)
	}
	for _, add := range f.adds {
		files, err := readAdd(add)
		if err != nil {
			fault("--add %q: %w", add, err)
		}
		spec.files = append(spec.files, files...)
	}
	for _, link := range f.symlinks {
		path, target, found := strings.Cut(link, ":")
		if !found || target == "" {
			fault("--symlink %q: want PATH:TARGET", link)
			continue
		}
		spec.files = append(spec.files, imageFile{path: path, mode: fs.ModeSymlink | 0o777, target: target})
	}
	for _, dir := range f.dirs {
		path, mode, found := strings.Cut(dir, ":")
		file := imageFile{path: path, mode: fs.ModeDir | 0o755}
		if found {
			bits, err := parseMode(mode)
			if err != nil {
				fault("--dir %q: %w", dir, err)
			}
			file.mode = fs.ModeDir | bits
		}
		spec.files = append(spec.files, file)
	}
	return spec, errors.Join(faults...)
}

// readAdd reads what one --add names: a file, or a folder with all below it. Links and special files are refused: what
// they would mean in the image is better said with --symlink.
func readAdd(add string) ([]imageFile, error) {
	parts := strings.Split(add, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return nil, errors.New("want SRC:DEST[:MODE]")
	}
	source, dest := parts[0], parts[1]
	var fixed fs.FileMode
	if len(parts) == 3 {
		var err error
		if fixed, err = parseMode(parts[2]); err != nil {
			return nil, err
		}
	}
	var files []imageFile
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(source)
		if path != source { // SRC itself may be a link, as Debian's programs are at times
			info, err = entry.Info()
		}
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		file := imageFile{path: filepath.ToSlash(filepath.Join(dest, inside))}
		switch {
		case info.IsDir():
			file.mode = fs.ModeDir | 0o755
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is neither a file nor a folder", path)
		default:
			if file.content, err = os.ReadFile(path); err != nil {
				return err
			}
			file.mode = fileMode(info.Mode(), fixed, len(parts) == 3)
		}
		files = append(files, file)
		return nil
	})
	return files, err
}

// fileMode makes modes independent of the umask the sources were checked out with: only "may be run" counts.
func fileMode(source, fixed fs.FileMode, isFixed bool) fs.FileMode {
	switch {
	case isFixed:
		return fixed
	case source&0o111 != 0:
		return 0o755
	}
	return 0o644
}

// parseMode reads an octal mode of permission bits with set-user-id, set-group-id and sticky: 0644, 1777, 4755.
func parseMode(text string) (fs.FileMode, error) {
	bits, err := strconv.ParseUint(text, 8, 32)
	if err != nil || bits > 0o7777 {
		return 0, fmt.Errorf("mode %q: want an octal number up to 7777", text)
	}
	mode := fs.FileMode(bits & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			mode |= flag
		}
	}
	return mode, nil
}
