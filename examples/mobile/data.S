// The weights, a hundred images and their labels, as they lie in their files, for libdigits.a.
#define PUT(name, file) \
    .global name; \
    .balign 64; \
name: .incbin file

    .section .rodata
    PUT(digits_weights, "digits.weights")
    PUT(digits_images, "digits.images")
    PUT(digits_labels, "digits.labels")
    .section .note.GNU-stack, "", %progbits
