package nested

import . "flag"
