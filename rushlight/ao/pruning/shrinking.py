def shrink(*a): pass
