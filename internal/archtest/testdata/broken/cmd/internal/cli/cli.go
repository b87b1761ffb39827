package cli // want: package-comment

import "flag"

var verbose = flag.Bool("v", false, "")
