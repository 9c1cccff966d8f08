// Letters of other scripts and styles that look like Latin ones, beyond what NFKC and case folding equate.
// Threads: pure. Source: chosen by eye from the Unicode charts, letters that common fonts draw alike.
#pragma once

namespace surety::gateway {

// The lower-case Latin letter, or '-' for hyphens and dashes; 0: it looks like none. Before case folding: a capital
// looks like another letter than its small form does.
char32_t LookAlike(char32_t code_point);

}  // namespace surety::gateway
