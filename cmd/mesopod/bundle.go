package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mesopod/mesopod/internal/bundle"
)

func newBundleCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "bundle [--bundle-dir=DIR] FOLDER",
		Short: "Pack mesopod's programs and images into one archive for agents",
		Long: `Pack mesopod's programs and images into one archive for agents.

The archive is named after its SHA-256 and put into FOLDER; the same programs make the same archive. Its path is printed.
Give it to the scheduler (--bundle), and put FOLDER onto a web server if agents are to have it from there, too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			digest, err := bundle.Create(dir, args[0])
			if err != nil {
				return coded(err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(args[0], string(digest)))
			return err
		},
	}
	c.Flags().StringVar(&dir, "bundle-dir", executableDir(), "folder of mesopod, containerd, runc, CNI plugins and images")
	return c
}
