"""The reference made wrong in one named way each, to test what tests it. Each defect puts a wrong part in a right
one's place."""
