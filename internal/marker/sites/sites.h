/* The sites, their semaphore and the notes that tell tracers of them, in the form that
 * SystemTap's documentation gives (UserSpaceProbeImplementation). */

/* The kernel adds one for each probe that is attached, in the lower 16 bits. It has a
 * cache line of its own: what lies beside it is not read more slowly for it. */
	.section .probes,"aw",BITS
	.balign 64
	.globl peerdirect_semaphore
	.hidden peerdirect_semaphore
peerdirect_semaphore:
	.zero 64

/* By which tracers tell where prelink has moved the file to. */
	.section .stapsdt.base,"aG",BITS,.stapsdt.base,comdat
	.weak _.stapsdt.base
	.hidden _.stapsdt.base
_.stapsdt.base:
	.zero 1

	.text
	.balign 16
	.globl peerdirect_post
	.hidden peerdirect_post
	.type peerdirect_post, FUNCTION
peerdirect_post:
	SITE
	.size peerdirect_post, . - peerdirect_post

	.balign 16
	.globl peerdirect_complete
	.hidden peerdirect_complete
	.type peerdirect_complete, FUNCTION
peerdirect_complete:
	SITE
	.size peerdirect_complete, . - peerdirect_complete

/* Notes: lengths of owner and description, type 3; owner; site, base, semaphore;
 * provider, name, arguments. Both sites have one semaphore: a tracer of either sees
 * whole operations. */
	.section .note.stapsdt,"",NOTE_TYPE
	.balign 4
	.4byte 2f - 1f, 4f - 3f, 3
1:	.asciz "stapsdt"
2:	.balign 4
3:	.8byte peerdirect_post, _.stapsdt.base, peerdirect_semaphore
	.asciz "peerdirect"
	.asciz "post"
	.asciz POST_ARGUMENTS
4:	.balign 4

	.4byte 2f - 1f, 4f - 3f, 3
1:	.asciz "stapsdt"
2:	.balign 4
3:	.8byte peerdirect_complete, _.stapsdt.base, peerdirect_semaphore
	.asciz "peerdirect"
	.asciz "complete"
	.asciz COMPLETE_ARGUMENTS
4:	.balign 4

	.section .note.GNU-stack,"",BITS
