package check

import (
	"path"
	"regexp"
	"strings"
)

var testPathRE = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`_tests?\.(go|py|rb|exs?|erl|dart|c|cc|cpp|cxx|rs|php|lua|jl|sh|ml|clj|cljs)$`,
	`(^|/)tests?_[^/]*\.(py|c|cc|cpp|cxx|rb|rs|lua|jl|ml|sh|php)$`,
	`[._-](test|tests|spec|e2e|cy|bench)\.[cm]?[jt]sx?$`,
	`_spec\.(rb|cr|lua)$`,
	`(^|/)(test|tests)\.py$`,
	`(^|/)(test|tests)\.[cm]?[jt]sx?$`,
	`(^|/)tests?\.rs$`,
	`\.(bats|t)$`,
	`\.feature$`,
	`(^|/)__tests__/`,
	`(^|/)(tests?|specs?|e2e|cypress|integration[-_]?tests?|unit[-_]?tests?|functional[-_]?tests?|acceptance)/`,
	`(^|/)src/(test|it|androidTest|integrationTest|testFixtures)/`,
}, "|"))

// Class names, where upper case carries the meaning.
var testClassRE = regexp.MustCompile(`(^|/)(Test[A-Z]\w*|[A-Za-z]\w*(Test|Tests|TestCase|TestSuite|IT|Spec|Specs))\.(java|kt|kts|scala|groovy|cs|fs|vb|swift|php|m|mm|hs)$`)

// IsTestPath reports whether a path looks like a test by its name alone, in
// any of the usual languages.
func IsTestPath(p string) bool {
	p = strings.TrimPrefix(strings.ReplaceAll(p, "\\", "/"), "file://")
	if rootish := strings.LastIndex(p, "/workspace/"); rootish >= 0 && path.IsAbs(p) {
		p = p[rootish+len("/workspace/"):]
	}
	return testPathRE.MatchString(p) || testClassRE.MatchString(p)
}
