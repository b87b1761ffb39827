package settings

import "strings"

// suggest is ", did you mean X?" with the setting whose name is nearest to an unknown one, or nothing. Names are compared
// without case and dashes, so a flag's name finds its field.
func suggest(name string, list []Setting) string {
	plain := fold(name)
	best, least := "", len(plain)/3+1 // more than a third wrong is another word
	for _, s := range list {
		if d := distance(plain, fold(s.Key)); d < least {
			best, least = s.Key, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// distance is how many letters have to be put in, taken out or exchanged to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
